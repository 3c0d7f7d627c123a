// The adapter_config.json of a new adapter: short names such as all-linear become module names of the model.
#pragma once
#include <string>
#include <vector>

#include "hone/io/peft.h"
#include "hone/model/causal_lm.h"
#include "hone/tuner/config.h"

namespace hone::tuner {

// Throws UserError(usage) for targets that the model does not have.
io::AdapterConfig adapter_config(model::CausalLM& model, const TunerConfig& config);

// The names in modules_to_save, with short ones such as all-towers as module names of this model.
std::vector<std::string> saved_modules(model::CausalLM& model, const TunerConfig& config);

// The linear layers that such a config adapts, in order of depth.
std::vector<model::Linear*> adapted_linears(model::CausalLM& model, const io::AdapterConfig& config);

}  // namespace hone::tuner
