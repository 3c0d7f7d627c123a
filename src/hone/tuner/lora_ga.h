// LoRA-GA: initializes the matrices along singular vectors of the gradient, so that the first steps follow full fine-tuning.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "hone/model/causal_lm.h"
#include "hone/tuner/config.h"
#include "hone/tuner/lora_init.h"

namespace hone::tuner {

inline constexpr const char* kLoraGa = "lora_ga";         // as PEFT spells it in adapter_config.json
inline constexpr const char* kInitialFolder = "initial";  // inside a checkpoint: the pairs that were taken out of the base

using BaseGradients = std::map<std::string, Tensor>;  // by module path
// The training loss's mean gradient with respect to the weights of these layers.
using GradientSource = std::function<BaseGradients(model::CausalLM& model, const std::vector<model::Linear*>& layers)>;

// The pair, and the base weight minus the pair: the model's output is unchanged.
LoraPair lora_ga_init(const Tensor& weight, const Tensor& gradient, int64_t rank, double scale, const LoraGaConfig& config,
                      at::Generator& generator);

}  // namespace hone::tuner
