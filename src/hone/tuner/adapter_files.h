// The tensors of an attached adapter, and the files that PEFT reads.
#pragma once
#include <vector>

#include "hone/tuner/adapter.h"

namespace hone::tuner {

// Every tensor of the adapter under its name in PEFT's file, without the "base_model.model." prefix. Valid while the adapter is
// attached.
std::vector<model::NamedParameter> adapter_tensors(model::CausalLM& model, const AttachedAdapter& adapter);
void save_adapter(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder);
// What a gradient-based initialization subtracted from the base: needed with the adapter, since the base does not determine it.
void save_init_lora(const AttachedAdapter& adapter, const fs::path& folder);
// The same change as a plain LoRA of twice the rank on the original base, for adapters whose initialization changed the base.
void save_converted_adapter(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder);

}  // namespace hone::tuner
