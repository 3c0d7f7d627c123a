// The image settings of a model, from its own files, the front end's settings and the rules of its family.
#pragma once
#include "hone/data/encode/encoder.h"

namespace hone::data {

// Null for a text-only model. Throws UserError if the model's files do not match.
std::shared_ptr<const PictureConfig> picture_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                    const ModelIdentity& model);

}  // namespace hone::data
