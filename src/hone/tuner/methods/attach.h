// Attaches adapters of methods other than LoRA to a model, or applies them to the weights of a folder.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/methods/method.h"

namespace hone::tuner {

// Creates tuners for the layers selected by the config, from these paths and weight shapes. Throws UserError(usage) if it selects
// none, and for the head, whose product is part of the loss.
struct MadeTuners {
  std::vector<LayerShape> layers;
  LinearTuners tuners;
};
MadeTuners make_tuners(const std::vector<LayerShape>& candidates, const io::AdapterConfig& config, uint64_t seed);

// The same with values from files. `others` receives tensors of no tuner: weights that replace the base's, by parameter name.
// Throws UserError(bad_checkpoint) naming what is missing or misshapen. A config that contradicts the tensors is corrected.
MadeTuners read_tuners(const std::vector<LayerShape>& candidates, io::Adapter& files, const std::string& origin,
                       std::map<std::string, Tensor>& others);

std::vector<LayerShape> layer_shapes(model::CausalLM& model);

// Puts them on the model's layers under the options' name, in its type.
void put_tuners(model::CausalLM& model, const MadeTuners& made, const AttachOptions& options);

// All tuners of this adapter on the model, with the paths of their tensors in files.
void for_each_tuner(model::CausalLM& model, const AttachedAdapter& adapter,
                    const std::function<void(model::Linear& linear, const std::string& owner, model::LinearTuner& tuner)>& visit);

// Throws UserError(usage) for a method whose result is not a linear layer.
void require_merges(const io::AdapterConfig& config);
bool merges(const io::AdapterConfig& config);
// float32 arithmetic, rounded once to the weight's type.
Tensor merged_by(const model::LinearTuner& tuner, const Tensor& weight);

}  // namespace hone::tuner
