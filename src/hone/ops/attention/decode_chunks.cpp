#include "hone/ops/attention/decode_chunks.h"

#include <numeric>

#include "hone/base/error.h"

namespace hone::ops {

std::vector<int32_t> decode_chunks(std::span<const int64_t> lengths, int64_t sequences) {
  constexpr int64_t kStep = 64;  // positions that a thread block reads at a time
  HONE_CHECK(static_cast<int64_t>(lengths.size()) <= sequences);
  const auto positions = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto wanted = most_decode_chunks(sequences) - sequences;  // in addition to the partial chunk of each sequence
  const auto length = std::max<int64_t>(1, (positions + wanted * kStep - 1) / (wanted * kStep)) * kStep;
  std::vector<int32_t> list{static_cast<int32_t>(length), 0};
  std::vector<int32_t> owners;
  for (int64_t i = 0; i < sequences; ++i) {
    list.push_back(static_cast<int32_t>(owners.size()));
    if (i >= static_cast<int64_t>(lengths.size())) continue;
    const auto count = (lengths[static_cast<size_t>(i)] + length - 1) / length;
    owners.insert(owners.end(), static_cast<size_t>(count), static_cast<int32_t>(i));
  }
  list.push_back(static_cast<int32_t>(owners.size()));
  list[1] = list.back();
  list.insert(list.end(), owners.begin(), owners.end());
  return list;
}

}  // namespace hone::ops
