// Rules for conversations longer than the limit.
#pragma once
#include <utility>
#include <vector>

#include "hone/data/encode/encoder.h"

namespace hone::data {

// Keeps the first or last `limit` tokens; the first label is masked, since nothing precedes it.
void truncate(Sample& sample, int64_t limit, Truncation side);

// Consecutive pieces of at most `limit` tokens, each with its first label masked.
std::vector<Sample> split(const Sample& sample, int64_t limit);

// LLaMA-Factory's split of `budget` between a prompt and a response: {prompt length, response length}.
std::pair<int64_t, int64_t> infer_seqlen(int64_t prompt, int64_t response, int64_t budget);

}  // namespace hone::data
