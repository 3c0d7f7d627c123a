// Characters as the bytes of their UTF-8: small steps shared by all characters of a pattern.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

class ByteNodes {
 public:
  static constexpr int32_t kNone = 0;    // a node that reads nothing
  static constexpr int32_t kWhole = -1;  // where the last byte of a character leads

  struct Edge {
    uint8_t first, last;
    int32_t to;
    auto operator<=>(const Edge&) const = default;
  };

  // The node where one of these characters begins.
  int32_t add(const std::vector<CodePointRange>& ranges);
  const std::vector<Edge>& edges(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  size_t bytes() const;  // of memory

  // A number for each byte, from 0 and without gaps; bytes that no edge distinguishes share it.
  std::array<uint8_t, 256> classes() const;

 private:
  int32_t node(std::vector<Edge> edges);

  std::vector<std::vector<Edge>> nodes_{{}};
  std::map<std::vector<Edge>, int32_t> known_;
};

}  // namespace hone::engine
