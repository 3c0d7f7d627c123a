// Selects by name the base weights that train under full and freeze tuning.
#pragma once
#include <string>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/config.h"

namespace hone::tuner {

struct ParameterSize {
  std::string name;
  int64_t elements;
};

std::vector<ParameterSize> parameter_sizes(model::CausalLM& model);

// Parallel to `parameters`. Throws UserError(usage) if a name or expression selects nothing, or everything is frozen.
std::vector<bool> trained_by_prefix(const std::vector<ParameterSize>& parameters, const FreezeParameters& config);
std::vector<bool> trained_by_layer(const std::vector<ParameterSize>& parameters, const FreezeLayers& config, bool llama_pro);

// Indices of the layers that train: the last n, the first |n|, or every (layers / n)-th under llama_pro.
std::vector<int64_t> trained_layers(int64_t layers, int64_t count, bool llama_pro);

}  // namespace hone::tuner
