// What a model makes of recordings, from its own files and the rules of its family.
#pragma once
#include "hone/data/encode/encoder.h"

namespace hone::data {

// Null for a model that does not hear. Throws UserError where the model's files do not fit together.
std::shared_ptr<const SoundConfig> sound_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                const ModelIdentity& model);

}  // namespace hone::data
