#include "hone/engine/constraints/pattern.h"

#include <algorithm>

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

Pattern make(Kind kind, std::vector<Pattern> parts, int min = 0, int max = -1) {
  return std::make_shared<const PatternNode>(PatternNode{kind, {}, std::move(parts), min, max});
}

}  // namespace

Pattern pattern_nothing() {
  static const Pattern nothing = make(Kind::nothing, {});
  return nothing;
}

Pattern pattern_text(std::string_view utf8) {
  std::vector<Pattern> parts;
  for (size_t i = 0; i < utf8.size();) {
    auto value = next_code_point(utf8, i);
    parts.push_back(pattern_characters({{value, value}}));
  }
  return pattern_sequence(std::move(parts));
}

Pattern pattern_characters(std::vector<CodePointRange> ranges) {
  auto node = std::make_shared<PatternNode>(PatternNode{Kind::characters, normalised(std::move(ranges)), {}});
  return node->ranges.empty() ? pattern_nothing() : node;
}

Pattern pattern_sequence(std::vector<Pattern> parts) {
  if (std::ranges::any_of(parts, is_nothing)) return pattern_nothing();
  return parts.size() == 1 ? parts[0] : make(Kind::sequence, std::move(parts));
}

Pattern pattern_choice(std::vector<Pattern> parts) {
  std::erase_if(parts, is_nothing);
  if (parts.empty()) return pattern_nothing();
  return parts.size() == 1 ? parts[0] : make(Kind::choice, std::move(parts));
}

Pattern pattern_repeat(Pattern part, int min, int max) {
  if (max == 0 || (is_nothing(part) && min == 0)) return pattern_sequence({});
  if (is_nothing(part)) return pattern_nothing();
  return min == 1 && max == 1 ? part : make(Kind::repeat, {std::move(part)}, min, max);
}

Lengths lengths_of(const Pattern& pattern) {
  if (pattern->kind == Kind::characters) return {1, 1};
  if (pattern->parts.empty()) return {0, 0};
  if (pattern->kind == Kind::repeat) {
    auto [min, max] = lengths_of(pattern->parts[0]);
    return {min * pattern->min, max == 0 ? 0 : max < 0 || pattern->max < 0 ? -1 : max * pattern->max};
  }
  auto total = lengths_of(pattern->parts[0]);
  for (size_t i = 1; i < pattern->parts.size(); ++i) {
    auto [min, max] = lengths_of(pattern->parts[i]);
    bool choice = pattern->kind == Kind::choice, endless = total.max < 0 || max < 0;
    total = {choice ? std::min(total.min, min) : total.min + min, endless  ? -1
                                                                  : choice ? std::max(total.max, max)
                                                                           : total.max + max};
  }
  return total;
}

std::vector<CodePointRange> normalised(std::vector<CodePointRange> ranges) {
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
  return normalised(std::move(result));
}

}  // namespace hone::engine
