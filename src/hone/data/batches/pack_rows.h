// The packs of a dataset whose rows are all known: the lengths of its rows, and which spans of them share a sequence.
#pragma once
#include <cstdint>
#include <vector>

#include "hone/base/thread_pool.h"
#include "hone/data/batches/row_encoder.h"

namespace hone::data {

// Lengths of each row's samples; empty if the row cannot be used.
using RowLengths = std::vector<std::vector<int64_t>>;

// A contiguous span of one row's tokens.
struct TokenSpan {
  int64_t row;
  size_t part = 0;
  size_t begin = 0, end = SIZE_MAX;
};
using SpanPack = std::vector<TokenSpan>;

// Encodes every row once, and reports it once.
RowLengths row_lengths(const RowEncoder& rows, RowReport& report, ThreadPool& pool);

std::vector<SpanPack> pack_rows(const RowLengths& rows, const LoaderConfig& config, int64_t capacity);

// Throws UserError(bad_data) if the texts are valid but too short in total: an incomplete block is dropped.
void require_tokens_of_a_block(const RowLengths& rows, int64_t capacity);

}  // namespace hone::data
