// Several sequences concatenated in one row of tokens: the batch form of every operator here. Lengths stay on the host.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace hone::ops {

struct CuSeqlens {
  std::vector<int64_t> offsets{0};  // sequence i is [offsets[i], offsets[i + 1])

  void append(int64_t length) { offsets.push_back(offsets.back() + length); }
  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t total() const { return offsets.back(); }
  int64_t length(int64_t i) const { return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)]; }
  int64_t longest() const {
    int64_t longest = 0;
    for (int64_t i = 0; i < count(); ++i) longest = std::max(longest, length(i));
    return longest;
  }
};

}  // namespace hone::ops
