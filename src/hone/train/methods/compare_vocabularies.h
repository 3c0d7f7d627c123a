// Whether two tokenizers mean the same by the same token ids.
#pragma once
#include <string>

#include "hone/text/tokenizer.h"

namespace hone::train {

// "" where they do; else the first difference: `token 12 is "a" here and "b" there`. Tokens that only one has are a difference
// where `sizes_matter`.
std::string vocabulary_difference(const text::Tokenizer& here, const text::Tokenizer& there, bool sizes_matter = true);

}  // namespace hone::train
