// Regular expressions as Python's `re` reads them, run by PCRE2 with bounded work: what evaluation tasks and templates hold.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"

namespace hone::text {

class PythonRegex {
 public:
  // The text of the whole match, then of each group; nothing for a group that took no part.
  using Match = std::vector<std::optional<std::string>>;

  static Result<PythonRegex> compile(const std::string& pattern, bool ignore_case = false);

  // All matches from left to right, none overlapping. Throws UserError when matching needs more work than is allowed.
  std::vector<Match> find_all(std::string_view text) const;
  // re.sub: `replacement` may name groups as \1 or \g<name>; at most `count` times, 0 is always.
  std::string replace(std::string_view text, std::string_view replacement, int64_t count = 0) const;

 private:
  struct Code;
  struct Place {
    size_t begin, end;
    Match groups;
  };
  explicit PythonRegex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::vector<Place> places(std::string_view text, int64_t count) const;
  std::optional<std::string> group_of(const Match& match, std::string_view name) const;

  std::shared_ptr<const Code> code_;
};

}  // namespace hone::text
