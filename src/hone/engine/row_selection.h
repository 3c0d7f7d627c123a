// Which rows of a forward pass are read: those that tokens are sampled from, and those before prompt tokens with
// log-probabilities.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hone/engine/scheduler.h"
#include "hone/model/inference/paged_input.h"

namespace hone::engine {

// The adapter ranges of the selected rows, in their numbering.
ops::LoraMapping ranges_of_rows(const ops::LoraMapping& adapters, const std::vector<int32_t>& selected);

// The prompt tokens whose log-probabilities a chunk computes, [first, last); the row before each predicts it.
std::pair<int64_t, int64_t> prompt_targets(const ScheduledChunk& chunk);

// The number of rows at the end of a chunk that tokens are sampled from.
int64_t sampled_rows(const ScheduledChunk& chunk);

// The rows whose hidden states are read. Empty where that is most of them, or where results may not depend on their number.
std::vector<int32_t> rows_read(std::span<const ScheduledChunk> chunks);

// On a GPU the last row is repeated up to a batch size of decodes, since libraries load a kernel for milliseconds when a number
// of rows needs another one.
std::vector<int32_t> padded_rows(std::vector<int32_t> rows, at::Device device);

}  // namespace hone::engine
