// Adapters of the methods beside LoRA on a model, and in the weights of a folder.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/methods/method.h"

namespace hone::tuner {

// Tuners for the layers that the config names, out of these paths with the shapes of their weights. Throws UserError(usage) when
// it names none, and for the head, whose product is part of the loss.
struct MadeTuners {
  std::vector<LayerShape> layers;
  LinearTuners tuners;
};
MadeTuners make_tuners(const std::vector<LayerShape>& candidates, const io::AdapterConfig& config, uint64_t seed);

// The same with the values of files. `others` receives what belongs to no tuner: weights that replace the base's, by parameter
// name. Throws UserError(bad_checkpoint) naming what is missing or has another shape. A config that says other than the tensors
// is corrected.
MadeTuners read_tuners(const std::vector<LayerShape>& candidates, io::Adapter& files, const std::string& origin,
                       std::map<std::string, Tensor>& others);

std::vector<LayerShape> layer_shapes(model::CausalLM& model);

// Puts them on the model's layers under the options' name, in its type.
void put_tuners(model::CausalLM& model, const MadeTuners& made, const AttachOptions& options);

// Every tuner of this adapter on the model, with the path its tensors have in files.
void for_each_tuner(model::CausalLM& model, const AttachedAdapter& adapter,
                    const std::function<void(model::Linear& linear, const std::string& owner, model::LinearTuner& tuner)>& visit);

// Throws UserError(usage) for a method that makes something else of a layer than a linear one.
void require_merges(const io::AdapterConfig& config);
bool merges(const io::AdapterConfig& config);
// float32 arithmetic, rounded once to the weight's type.
Tensor merged_by(const model::LinearTuner& tuner, const Tensor& weight);

}  // namespace hone::tuner
