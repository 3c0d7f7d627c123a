// The parts of a multimodal model as in ms-swift: language model, vit (including an audio tower), aligner.
#pragma once
#include <string>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/tuner/config.h"

namespace hone::tuner {

enum class ModelPart { llm, vit, aligner };

// The part of a module or a parameter, by its name.
ModelPart part_of(const std::string& name, const model::DecoderConfig& config);
bool is_frozen(ModelPart part, const FrozenParts& frozen);

// A regular expression for all linear layers of the parts that train, the head left out: PEFT's target_modules. Of the language
// model, those of `layers` alone, unless it is empty.
std::string linear_targets(model::CausalLM& model, const FrozenParts& frozen, const std::vector<int64_t>& layers = {});

}  // namespace hone::tuner
