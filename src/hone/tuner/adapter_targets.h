// The modules of a model that an adapter config selects. In the config of a new adapter, short names such as all-linear become
// module names of the model.
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

// Throws UserError(usage) if a target or a module to save matches no module of the model, of which it reads only names.
void require_targets(model::CausalLM& model, const io::AdapterConfig& config);
// The numbers in the low-rank pairs of a LoRA, before there is one. Reads shapes alone: a skeleton will do.
int64_t lora_elements(model::CausalLM& model, const io::AdapterConfig& config);
// Throws UserError(usage) for a target that is at the end of none of `slots`, and if no slot is adapted.
void require_matches(const io::AdapterConfig& config, const std::vector<model::AdapterSlot>& slots, size_t adapted);

// The linear layers that such a config adapts, in order of depth.
std::vector<model::Linear*> adapted_linears(model::CausalLM& model, const io::AdapterConfig& config);

}  // namespace hone::tuner
