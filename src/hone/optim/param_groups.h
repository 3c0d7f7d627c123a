// Groups trainable parameters: weight decay as in transformers, LoRA+ learning rates, separate rates for a vision tower.
#pragma once
#include <optional>
#include <string_view>

#include "hone/optim/optimizer.h"

namespace hone::optim {

struct ParamGroupConfig {
  double learning_rate = 5e-5;  // the schedule's peak: rates given in absolute terms become ratios of it
  double weight_decay = 0;
  std::optional<double> loraplus_ratio;          // lora_B's rate over lora_A's
  double loraplus_embedding_rate = 1e-6;         // of lora_embedding_B under LoRA+
  std::optional<double> vit_rate, aligner_rate;  // of a vision tower and its merger
};

// False for biases and norms.
bool takes_weight_decay(std::string_view parameter_name);
std::vector<ParameterGroup> make_param_groups(const NamedTensors& trainable,
                                              const ParamGroupConfig& config);  // no group is empty or mixes number types

}  // namespace hone::optim
