#include "hone/engine/constraints/json_layout.h"

#include <algorithm>

namespace hone::engine {
namespace {

constexpr int kWidestIndent = 8;  // an unsure model would fill any white space it is allowed

// Allowed white space between parts: none, a space, or a line break with its indentation.
Pattern blank() {
  static const Pattern pattern = pattern_optional(pattern_choice(
      {pattern_text(" "), pattern_sequence({pattern_text("\n"), pattern_repeat(pattern_text(" "), 0, kWidestIndent)})}));
  return pattern;
}

}  // namespace

Pattern json_comma() {
  static const Pattern pattern = pattern_sequence({pattern_text(","), blank()});
  return pattern;
}

Pattern json_enclosed(const char* open, Pattern inside, const char* close) {
  return pattern_sequence({pattern_text(open), blank(), std::move(inside), blank(), pattern_text(close)});
}

Pattern json_list(const Pattern& item, int min, int max) {
  if (max == 0) return pattern_sequence({});
  auto more = pattern_repeat(pattern_sequence({json_comma(), item}), std::max(min - 1, 0), max < 0 ? -1 : max - 1);
  auto some = pattern_sequence({item, more});
  return min > 0 ? some : pattern_optional(some);
}

Pattern json_member(const Pattern& name, const Pattern& content) {
  static const Pattern space = pattern_optional(pattern_text(" "));
  return pattern_sequence({name, pattern_text(":"), space, content});
}

// Any of those that may come first, followed by the rest: all share one sequence for what follows the first.
Pattern json_members(const std::vector<JsonMember>& members) {
  std::vector<Pattern> following, ways;
  for (const auto& [pattern, required] : members) {
    auto next = pattern_sequence({json_comma(), pattern});
    following.push_back(required ? next : pattern_optional(next));
  }
  following.push_back(pattern_sequence({}));  // a sequence of one is its only part
  auto all = pattern_sequence(std::move(following));
  bool needed = all->kind == PatternNode::Kind::nothing;
  for (size_t i = 0; i < members.size() && !needed; ++i) {
    ways.push_back(pattern_sequence({members[i].pattern, pattern_rest(all, i + 1)}));
    needed = members[i].required;
  }
  auto some = pattern_choice(std::move(ways));
  return needed ? some : pattern_optional(some);
}

}  // namespace hone::engine
