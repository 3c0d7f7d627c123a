// Regular expressions with the semantics of Python's `re`, run by PCRE2 with bounded work: for evaluation tasks and templates.
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
  // The text of the full match, then of each group; nothing for a group that did not participate.
  using Match = std::vector<std::optional<std::string>>;

  static Result<PythonRegex> compile(const std::string& pattern, bool ignore_case = false);

  // All non-overlapping matches from left to right. Throws UserError if matching exceeds the work limit.
  std::vector<Match> find_all(std::string_view text) const;
  // re.sub: `replacement` may refer to groups as \1 or \g<name>; at most `count` times, 0 is unlimited.
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
