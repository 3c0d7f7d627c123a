// Merges for vocabularies without a merge list: every way to split a token into two others.
#pragma once
#include "hone/text/tokenizer/models/bpe.h"

namespace hone::text::tokenizer {

enum class MergeRank {
  per_token,  // all splits of a token share its id as rank (tiktoken)
  per_split,  // splits are ranked by the token's id, then by the length of the left part (transformers' conversion)
};

// Tokens below `first_id` (special ones) take no part.
MergeTable merges_by_splits(const Vocabulary& vocabulary, TokenId first_id, MergeRank kind);

}  // namespace hone::text::tokenizer
