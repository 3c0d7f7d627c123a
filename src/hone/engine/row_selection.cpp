#include "hone/engine/row_selection.h"

#include <algorithm>

#include "hone/engine/decode_graphs.h"

namespace hone::engine {

ops::LoraMapping ranges_of_rows(const ops::LoraMapping& adapters, const std::vector<int32_t>& selected) {
  ops::LoraMapping result;
  for (const auto& range : adapters) {
    auto first = std::ranges::lower_bound(selected, range.begin) - selected.begin(),
         last = std::ranges::lower_bound(selected, range.end) - selected.begin();
    if (first < last) result.push_back({range.adapter, first, last});
  }
  return result;
}

std::pair<int64_t, int64_t> prompt_targets(const ScheduledChunk& chunk) {
  const auto& sequence = *chunk.sequence;
  if (!sequence.wants_prompt_logprobs()) return {0, 0};
  return {std::max(sequence.num_computed_tokens + 1, sequence.request.sampling.prompt_logprobs_start),
          std::min(sequence.num_computed_tokens + chunk.count + 1, sequence.prompt_size)};
}

int64_t sampled_rows(const ScheduledChunk& chunk) {
  return chunk.samples_token() ? 1 + static_cast<int64_t>(chunk.sequence->draft_tokens.size()) : 0;
}

std::vector<int32_t> rows_read(std::span<const ScheduledChunk> chunks) {
  std::vector<int32_t> rows;
  int64_t begin = 0;
  for (const auto& chunk : chunks) {
    if (chunk.is_batch_invariant()) return {};
    const int64_t sampled = begin + chunk.count - sampled_rows(chunk), past = chunk.sequence->num_computed_tokens;
    const auto [first, last] = prompt_targets(chunk);
    for (int64_t next = first; next < last && begin + next - 1 - past < sampled; ++next)
      rows.push_back(static_cast<int32_t>(begin + next - 1 - past));
    for (int64_t row = sampled; row < begin + chunk.count; ++row) rows.push_back(static_cast<int32_t>(row));
    begin += chunk.count;
  }
  return static_cast<int64_t>(rows.size()) * 2 > begin ? std::vector<int32_t>() : rows;
}

std::vector<int32_t> padded_rows(std::vector<int32_t> rows, at::Device device) {
  if (device.is_cuda()) rows.resize(static_cast<size_t>(decode_bucket(static_cast<int64_t>(rows.size()))), rows.back());
  return rows;
}

}  // namespace hone::engine
