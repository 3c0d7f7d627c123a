// Converts adapters on separate expert layers, as in transformers 4, to stacked parameters: PEFT's own conversion.
#pragma once
#include "hone/io/peft.h"
#include "hone/model/config.h"

namespace hone::tuner {

// Converts pairs of single experts ("….experts.3.gate_proj.lora_A.weight") to stacked parameters, gate and up with the ranks of
// both, and updates the config. Throws UserError(bad_checkpoint) if an expert's pair is missing or misshapen, or is not a plain
// pair (DoRA).
void stack_single_experts(io::Adapter& adapter, const std::string& origin);

// Targets of a new adapter that name experts' layers (gate_proj, up_proj, down_proj, w1 …, gate) select the stacked parameters if
// the model has no such modules. Throws UserError(usage) if gate or up is named alone: they are one parameter.
void target_stacked_experts(io::AdapterConfig& config, const std::vector<std::string>& modules, const model::MoeConfig& experts);

}  // namespace hone::tuner
