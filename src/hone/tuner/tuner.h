// Prepares a loaded model for training: selects what trains and attaches adapters.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/config.h"

namespace hone::tuner {

struct Tuned {
  std::vector<std::pair<std::string, Tensor>> trainable;  // leaves with requires_grad, under the names of the files
  std::optional<AttachedAdapter> adapter;                 // LoRA only
  int64_t trainable_count = 0, total_count = 0;           // elements; the total includes adapters

  std::string summary() const;  // "trainable parameters: 1,081,344 of 495,114,112 (0.2184%)"
};

void validate(const TunerConfig& config);  // throws ConfigError
// Throws UserError(usage) if the config names modules that the model does not have. Reads names alone: a skeleton will do.
void require_modules(model::CausalLM& model, const TunerConfig& config);

// Everything not selected is frozen. Trained weights are copied out of the mapped file; tied weights stay tied. `gradients` is
// called only by gradient-based initializations (LoRA-GA).
Tuned apply_tuner(model::CausalLM& model, const TunerConfig& config, const GradientSource& gradients = {});

}  // namespace hone::tuner
