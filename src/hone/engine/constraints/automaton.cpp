#include "hone/engine/constraints/automaton.h"

#include <algorithm>

namespace hone::engine {
namespace {

struct TooLarge {};

std::string utf8(uint32_t value) {
  if (value < 0x80) return {static_cast<char>(value)};
  std::string bytes;
  int more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  bytes += static_cast<char>((0xFF00 >> (more + 1)) | (value >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | ((value >> (6 * i)) & 0x3F));
  return bytes;
}

// A range of code points as runs of byte ranges: split where the length changes and where the trailing bytes are not full.
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

// Thompson's construction: build(pattern, to) returns where to begin so that the pattern leads to `to`.
class Automaton::Builder {
 public:
  Builder(Automaton& automaton, size_t limit) : nodes_(automaton.nodes_), limit_(limit) {}

  int32_t node() {
    if (nodes_.size() >= limit_) throw TooLarge();
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
  }

  int32_t build(const Pattern& pattern, int32_t to) {
    switch (pattern->kind) {
      case PatternNode::Kind::nothing:
        return node();
      case PatternNode::Kind::characters:
        return characters(pattern->ranges, to);
      case PatternNode::Kind::sequence:
        for (auto part = pattern->parts.rbegin(); part != pattern->parts.rend(); ++part) to = build(*part, to);
        return to;
      case PatternNode::Kind::choice: {
        auto start = node();
        for (const auto& part : pattern->parts) {
          auto begin = build(part, to);
          at(start).jumps.push_back(begin);
        }
        return start;
      }
      case PatternNode::Kind::repeat:
        return repeat(*pattern, to);
    }
    return to;
  }

 private:
  Node& at(int32_t id) { return nodes_[static_cast<size_t>(id)]; }

  int32_t repeat(const PatternNode& pattern, int32_t to) {
    const auto& part = pattern.parts[0];
    if (pattern.max < 0) {
      auto loop = node();
      auto again = build(part, loop);
      at(loop).jumps = {again, to};
      to = loop;
    }
    for (int32_t i = pattern.min, end = to; i < pattern.max; ++i) {  // after each of these it may be over
      auto start = node(), begin = build(part, to);
      at(start).jumps = {begin, end};
      to = start;
    }
    for (int i = 0; i < pattern.min; ++i) to = build(part, to);
    return to;
  }
  int32_t characters(const std::vector<CodePointRange>& ranges, int32_t to) {
    auto start = node();
    for (auto [first, last] : ranges)
      for_byte_runs(first, last, [&](const std::string& low, const std::string& high) {
        int32_t from = start;
        for (size_t i = 0; i < low.size(); ++i) {
          int32_t next = i + 1 == low.size() ? to : node();
          at(from).edges.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]), next});
          from = next;
        }
      });
    return start;
  }

  std::vector<Node>& nodes_;
  size_t limit_;
};

Result<Automaton> Automaton::make(const Pattern& pattern, size_t max_states) try {
  if (pattern->kind == PatternNode::Kind::nothing) return error("nothing can satisfy it");
  Automaton automaton;
  automaton.most_states_ = max_states;
  Builder builder(automaton, max_states);
  automaton.end_ = builder.node();
  auto start = builder.build(pattern, automaton.end_);
  automaton.state_of({start});
  return automaton;
} catch (const TooLarge&) {
  return error("it is too large: more than {} states", max_states);
}

// Follows jumps, keeps what reads a byte or ends.
void Automaton::close(std::vector<int32_t>& nodes) {
  seen_.resize(nodes_.size());
  ++closing_;
  std::vector<int32_t> result;
  while (!nodes.empty()) {
    auto id = nodes.back();
    nodes.pop_back();
    if (std::exchange(seen_[static_cast<size_t>(id)], closing_) == closing_) continue;
    const auto& node = nodes_[static_cast<size_t>(id)];
    if (!node.edges.empty() || id == end_) result.push_back(id);
    nodes.insert(nodes.end(), node.jumps.begin(), node.jumps.end());
  }
  std::ranges::sort(result);
  nodes = std::move(result);
}

int32_t Automaton::state_of(std::vector<int32_t> nodes) {
  close(nodes);
  if (nodes.empty()) return kDead;
  if (states_.size() >= most_states_ && !known_.contains(nodes)) throw TooManyStates();
  auto [place, added] = known_.try_emplace(nodes, static_cast<int32_t>(states_.size()));
  if (added) {
    auto& state = states_.emplace_back();
    state.accepting = std::ranges::binary_search(nodes, end_);
    state.nodes = std::move(nodes);
  }
  return place->second;
}

int32_t Automaton::step(int32_t state, uint8_t byte) {
  auto& table = states_[static_cast<size_t>(state)].next;
  if (!table) {
    table = std::make_unique<std::array<int32_t, 256>>();
    table->fill(kUnknown);
  }
  if (auto known = (*table)[byte]; known != kUnknown) return known;
  std::vector<int32_t> reached;
  for (auto id : states_[static_cast<size_t>(state)].nodes)
    for (const auto& edge : nodes_[static_cast<size_t>(id)].edges)
      if (edge.first <= byte && byte <= edge.last) reached.push_back(edge.to);
  auto next = reached.empty() ? kDead : state_of(std::move(reached));
  (*states_[static_cast<size_t>(state)].next)[byte] = next;  // states may have moved
  return next;
}

}  // namespace hone::engine
