// Guesses what follows from what stands in the text already: an answer often repeats its prompt.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

// At most `count` tokens that followed the latest earlier place where the last tokens (the more the better, at least two) stood.
std::vector<text::TokenId> guess_following(std::span<const text::TokenId> tokens, int64_t count);

}  // namespace hone::engine
