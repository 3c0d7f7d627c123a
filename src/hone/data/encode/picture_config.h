// What a model makes of pictures, from its own files, the front end's settings and the rules of its family.
#pragma once
#include "hone/data/encode/encoder.h"

namespace hone::data {

// Null for a model that takes text alone. Throws UserError where the model's files do not fit together.
std::shared_ptr<const PictureConfig> picture_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                    const ModelIdentity& model);

}  // namespace hone::data
