// The tuning methods other than LoRA, one file each; registry.cpp lists them.
#pragma once
#include "hone/tuner/methods/method.h"

namespace hone::tuner {

LinearTuners make_adalora(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_boft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_bottleneck(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_fourierft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_oft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_reft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);
LinearTuners make_vera(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t seed);

void complete_adalora(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps);
void complete_bottleneck(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps);
void complete_reft(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps);
void complete_vera(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t steps);

// PEFT without its CUDA extension uses one butterfly factor, whatever its config says.
void follow_butterfly_factors(io::AdapterConfig& config, const io::NamedTensorList& tensors);
// "model.layers", the path of the decoder's blocks, whose numbers follow it; empty where they have experts.
std::string path_of_blocks(const std::vector<LayerShape>& layers);
// ms-swift's adapter follows the full MLP, whose last layer is down_proj.
std::string owner_of_bottleneck(const std::string& path);
// ReFT changes a block's output, whose last part down_proj adds.
std::string owner_of_reft(const std::string& path);

}  // namespace hone::tuner
