// Adapters that know experts as layers of their own, as transformers 4 had them, in the form of stacked parameters: PEFT's own
// conversion.
#pragma once
#include "hone/io/peft.h"
#include "hone/model/config.h"

namespace hone::tuner {

// Pairs of single experts ("….experts.3.gate_proj.lora_A.weight") become those of stacked parameters, gate and up with the ranks
// of both; the config follows. Throws UserError(bad_checkpoint) where an expert's pair is missing or has another shape, or is
// more than a pair (DoRA).
void stack_single_experts(io::Adapter& adapter, const std::string& origin);

// Targets of a fresh adapter that name experts' layers (gate_proj, up_proj, down_proj, w1 …, gate) where the model has no such
// modules mean the stacked parameters. Throws UserError(usage) when gate or up is named alone: they are one parameter.
void target_stacked_experts(io::AdapterConfig& config, const std::vector<std::string>& modules, const model::MoeConfig& experts);

}  // namespace hone::tuner
