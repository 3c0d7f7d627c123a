// Which keys the queries of one sequence attend to.
#pragma once
#include <algorithm>
#include <cstdint>

namespace hone::ops::cpu {

struct KeyRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

// The queries are the last positions of the sequence.
struct VisibleKeys {
  int64_t queries, keys, window;
  bool causal;

  KeyRange of(int64_t query) const {
    const int64_t position = keys - queries + query;
    const int64_t end = causal ? position + 1 : window > 0 ? position + window : keys;
    return {window > 0 ? std::max<int64_t>(0, position - window + 1) : 0, std::min(end, keys)};
  }
};

}  // namespace hone::ops::cpu
