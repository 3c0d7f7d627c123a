#include "hone/engine/constraints/pattern.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace hone::engine {
namespace {

using Kind = PatternNode::Kind;

bool is_nothing(const Pattern& pattern) { return pattern->kind == Kind::nothing; }

uint32_t next_code_point(std::string_view text, size_t& i) {
  auto byte = static_cast<unsigned char>(text[i++]);
  int more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC0 ? 1 : 0;
  uint32_t value = more == 0 ? byte : byte & (0x3F >> more);
  for (; more > 0 && i < text.size(); --more) value = value << 6 | (static_cast<unsigned char>(text[i++]) & 0x3F);
  return value;
}

std::shared_ptr<PatternNode> make(Kind kind, std::vector<Pattern> parts, bool matches_empty) {
  return std::make_shared<PatternNode>(PatternNode{.kind = kind, .parts = std::move(parts), .matches_empty = matches_empty});
}

// Nodes of single ASCII characters are cached, since most texts consist of them.
const Pattern& ascii(uint32_t character) {
  static const auto all = [] {
    std::array<Pattern, 0x80> made;
    for (uint32_t c = 0; c < made.size(); ++c) made[c] = pattern_characters({{c, c}});
    return made;
  }();
  return all[character];
}

const Pattern& empty_text() {
  static const Pattern pattern = make(Kind::sequence, {}, true);
  return pattern;
}

// Lengths beyond this count as unlimited; small enough to multiply two of them.
constexpr int64_t kLongestText = int64_t{1} << 31;
int64_t capped(int64_t length) { return std::min(length, kLongestText); }

// Approximate, including the overhead of the heap and shared pointers.
size_t node_bytes(const PatternNode& node) {
  constexpr size_t kAround = 16;
  auto listed = [](const auto& list) { return list.capacity() == 0 ? 0 : list.capacity() * sizeof(list[0]) + kAround; };
  return sizeof(node) + 2 * kAround + listed(node.ranges) + listed(node.parts);
}

}  // namespace

Pattern pattern_nothing() {
  static const Pattern nothing = make(Kind::nothing, {}, false);
  return nothing;
}

Pattern pattern_text(std::string_view utf8) {
  std::vector<Pattern> parts;
  for (size_t i = 0; i < utf8.size();) {
    auto value = next_code_point(utf8, i);
    parts.push_back(value < 0x80 ? ascii(value) : pattern_characters({{value, value}}));
  }
  return pattern_sequence(std::move(parts));
}

Pattern pattern_characters(std::vector<CodePointRange> ranges) {
  auto node = std::make_shared<PatternNode>(PatternNode{.kind = Kind::characters, .ranges = normalized(std::move(ranges))});
  return node->ranges.empty() ? pattern_nothing() : node;
}

Pattern pattern_sequence(std::vector<Pattern> parts) {
  if (std::ranges::any_of(parts, is_nothing)) return pattern_nothing();
  if (parts.size() == 1) return parts[0];
  if (parts.empty()) return empty_text();
  size_t from = parts.size();
  while (from > 0 && parts[from - 1]->matches_empty) --from;
  auto node = make(Kind::sequence, std::move(parts), from == 0);
  node->from = from;
  return node;
}

Pattern pattern_rest(const Pattern& sequence, size_t from) {
  if (from >= sequence->parts.size()) return pattern_sequence({});
  auto node = make(Kind::rest, {sequence}, from >= sequence->from);
  node->from = from;
  return node;
}

Pattern pattern_choice(std::vector<Pattern> parts) {
  std::erase_if(parts, is_nothing);
  if (parts.empty()) return pattern_nothing();
  if (parts.size() == 1) return parts[0];
  bool empty = std::ranges::any_of(parts, &PatternNode::matches_empty);
  return make(Kind::choice, std::move(parts), empty);
}

Pattern pattern_repeat(Pattern part, int min, int max) {
  if (max == 0 || (is_nothing(part) && min == 0)) return pattern_sequence({});
  if (is_nothing(part)) return pattern_nothing();
  if (min == 1 && max == 1) return part;
  if (part->matches_empty) min = 0;  // the empty text, as often as needed
  auto node = make(Kind::repeat, {std::move(part)}, min == 0);
  node->min = min;
  node->max = max;
  return node;
}

Lengths lengths_of(const Pattern& pattern) {
  if (pattern->kind == Kind::characters) return {1, 1};
  if (pattern->kind == Kind::repeat) {
    auto [min, max] = lengths_of(pattern->parts[0]);
    return {capped(min * pattern->min), max == 0 ? 0 : max < 0 || pattern->max < 0 ? -1 : capped(max * pattern->max)};
  }
  if (pattern->kind == Kind::choice) {
    auto widest = lengths_of(pattern->parts[0]);
    for (const auto& part : pattern->parts) {
      auto [min, max] = lengths_of(part);
      widest = {std::min(widest.min, min), widest.max < 0 || max < 0 ? -1 : std::max(widest.max, max)};
    }
    return widest;
  }
  bool rest = pattern->kind == Kind::rest;
  const auto& parts = rest ? pattern->parts[0]->parts : pattern->parts;
  Lengths total{0, 0};
  for (size_t i = rest ? pattern->from : 0; i < parts.size(); ++i) {
    auto [min, max] = lengths_of(parts[i]);
    total = {capped(total.min + min), total.max < 0 || max < 0 ? -1 : capped(total.max + max)};
  }
  return total;
}

size_t pattern_bytes(const Pattern& pattern) {
  std::unordered_set<const PatternNode*> seen;
  std::vector<const PatternNode*> open{pattern.get()};
  size_t bytes = 0;
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    bytes += node_bytes(*node);
    for (const auto& part : node->parts) open.push_back(part.get());
  }
  return bytes;
}

std::vector<CodePointRange> normalized(std::vector<CodePointRange> ranges) {
  std::vector<CodePointRange> split;
  for (auto [first, last] : ranges) {
    last = std::min(last, kLastCodePoint);
    if (first <= 0xD7FF && first <= last) split.push_back({first, std::min<uint32_t>(last, 0xD7FF)});
    if (last >= 0xE000) split.push_back({std::max<uint32_t>(first, 0xE000), last});
  }
  std::ranges::sort(split, {}, &CodePointRange::first);
  std::vector<CodePointRange> merged;
  for (auto range : split) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> result;
  uint32_t next = 0;
  for (auto [first, last] : ranges) {
    if (first > next) result.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastCodePoint) result.push_back({next, kLastCodePoint});
  return normalized(std::move(result));
}

}  // namespace hone::engine
