// Whether two tokenizers assign the same ids to the same tokens.
#pragma once
#include <string>

#include "hone/text/tokenizer.h"

namespace hone::train {

// "" if equal; else the first difference: `token 12 is "a" here and "b" there`. A token that only one has is a difference if
// `sizes_matter`.
std::string vocabulary_difference(const text::Tokenizer& here, const text::Tokenizer& there, bool sizes_matter = true);

}  // namespace hone::train
