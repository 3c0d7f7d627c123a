// First values of LoRA matrices, and what PiSSA and OLoRA take out of the base weight for them.
#pragma once
#include <string>

#include "hone/device/tensor.h"

namespace hone::tuner {

struct LoraPair {
  Tensor a, b;      // [rank, in], [out, rank], float32 on the weight's device
  Tensor residual;  // the base weight to use from now on; undefined when it does not change
};

// Throws UserError(usage) for an unknown kind, or one that needs what is not there.
void check_init(const std::string& kind);
// True for kinds that start from the base weight and change it; files of such adapters only make sense with the changed base.
bool changes_base(const std::string& kind);

// A stream per layer: the values do not depend on which other layers are adapted, and a reader of the file can draw them again.
at::Generator layer_generator(const std::string& path, uint64_t seed);

LoraPair initial_lora(const Tensor& weight, int64_t rank, double scale, const std::string& kind, at::Generator& generator);
LoraPair initial_embedding_lora(const Tensor& weight, int64_t rank, const std::string& kind, at::Generator& generator);

// DoRA's magnitudes: the length of each output's direction, |W + scale B A| by rows.
Tensor direction_lengths(const Tensor& weight, const Tensor& a, const Tensor& b, double scale);

}  // namespace hone::tuner
