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

inline KeyRange overlap(KeyRange a, KeyRange b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// All keys that the queries [begin, end) attend to. Both ends grow with the query.
inline KeyRange keys_of_rows(const VisibleKeys& visible, int64_t begin, int64_t end) {
  const auto first = visible.of(begin), last = visible.of(end - 1);
  if (first.empty()) return last;
  if (last.empty()) return first;
  return {std::min(first.begin, last.begin), std::max(first.end, last.end)};
}

}  // namespace hone::ops::cpu
