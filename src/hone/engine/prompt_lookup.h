// Prompt-lookup speculative decoding: proposes the tokens that followed the last n-gram earlier in the sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

// At most `count` tokens that followed the latest earlier occurrence of the longest n-gram at the end (n of at least two).
std::vector<text::TokenId> propose_draft_tokens(std::span<const text::TokenId> tokens, int64_t count);

}  // namespace hone::engine
