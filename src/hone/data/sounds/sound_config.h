// The audio settings of a model, from its own files and the rules of its family.
#pragma once
#include "hone/data/encode/encoder.h"

namespace hone::data {

// Null for a model without audio. Throws UserError if the model's files do not match.
std::shared_ptr<const SoundConfig> sound_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                const ModelIdentity& model);

}  // namespace hone::data
