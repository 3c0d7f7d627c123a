#include "hone/engine/constraints/byte_nodes.h"

#include "hone/base/strings/utf8.h"

namespace hone::engine {
namespace {

std::string utf8(uint32_t code_point) {
  std::string bytes;
  append_utf8(bytes, code_point);
  return bytes;
}

// A range of code points as byte ranges: split where the length changes and where the trailing bytes are not full.
template <class Emit>
void for_byte_runs(uint32_t first, uint32_t last, Emit emit) {
  for (uint32_t limit : {0x7Fu, 0x7FFu, 0xFFFFu})
    if (first <= limit && limit < last) {
      for_byte_runs(first, limit, emit);
      return for_byte_runs(limit + 1, last, emit);
    }
  for (int bits : {6, 12, 18}) {
    uint32_t mask = (1u << bits) - 1;
    if (last < 0x80 || (first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      for_byte_runs(first, first | mask, emit);
      return for_byte_runs((first | mask) + 1, last, emit);
    }
    if ((last & mask) != mask) {
      for_byte_runs(first, (last & ~mask) - 1, emit);
      return for_byte_runs(last & ~mask, last, emit);
    }
  }
  emit(utf8(first), utf8(last));
}

}  // namespace

int32_t ByteNodes::node(std::vector<Edge> edges) {
  auto [entry, added] = known_.try_emplace(std::move(edges), static_cast<int32_t>(nodes_.size()));
  if (added) nodes_.push_back(entry->first);
  return entry->second;
}

int32_t ByteNodes::add(const std::vector<CodePointRange>& ranges) {
  std::vector<Edge> beginnings;
  for (auto [first, last] : ranges)
    for_byte_runs(first, last, [&](const std::string& low, const std::string& high) {
      auto edge = [&](size_t i, int32_t to) { return Edge{static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]), to}; };
      int32_t to = kWhole;
      for (size_t i = low.size() - 1; i > 0; --i) to = node({edge(i, to)});
      beginnings.push_back(edge(0, to));
    });
  return node(std::move(beginnings));
}

size_t ByteNodes::bytes() const {
  size_t total = 0;
  for (const auto& edges : nodes_) total += 2 * (sizeof(edges) + edges.size() * sizeof(Edge)) + 48;  // known_ holds them too
  return total;
}

std::array<uint8_t, 256> ByteNodes::classes() const {
  std::array<bool, 257> begins{};
  for (const auto& edges : nodes_)
    for (const auto& edge : edges) begins[edge.first] = begins[edge.last + size_t{1}] = true;
  std::array<uint8_t, 256> classes{};
  for (size_t byte = 1; byte < classes.size(); ++byte) classes[byte] = static_cast<uint8_t>(classes[byte - 1] + begins[byte]);
  return classes;
}

}  // namespace hone::engine
