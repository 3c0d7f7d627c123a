#include "hone/text/python_regex.h"

#include <charconv>

#include "hone/text/pcre.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text {
namespace {

// \Z is the very end in Python, {,n} is {0,n}.
std::string pcre_from_python(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out += c;
      out += pattern[++i] == 'Z' && !in_class ? 'z' : pattern[i];
    } else if (c == '{' && !in_class && i + 1 < pattern.size() && pattern[i + 1] == ',') {
      out += "{0";
    } else {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
    }
  }
  return out;
}

}  // namespace

struct PythonRegex::Code {
  pcre::Code code;
  std::string pattern;
};

Result<PythonRegex> PythonRegex::compile(const std::string& pattern, bool ignore_case) {
  if (pattern.size() > pcre::kMaxPattern)
    return error("regular expression of {} bytes; at most {}", pattern.size(), pcre::kMaxPattern);
  auto code = pcre::compile(pcre_from_python(pattern), ignore_case ? PCRE2_CASELESS : 0);
  if (!code) return error("regular expression '{}': {}", pattern, code.error());
  auto compiled = std::make_shared<Code>(Code{std::move(code).value(), pattern});
  return PythonRegex(std::move(compiled));
}

std::vector<PythonRegex::Place> PythonRegex::places(std::string_view given, int64_t most) const {
  std::string repaired;
  auto text = tokenizer::valid_utf8(given, repaired);
  pcre::MatchData data(pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  const auto limits = pcre::limited();
  auto search = [&](size_t from, uint32_t options) {
    return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options, data.get(),
                       limits.get());
  };
  std::vector<Place> found;
  uint32_t not_empty = 0;  // after an empty match: something else must follow, as in Python
  for (size_t from = 0; from <= text.size() && (most == 0 || static_cast<int64_t>(found.size()) < most);) {
    int groups = search(from, not_empty);
    if (groups == PCRE2_ERROR_JIT_STACKLIMIT) groups = search(from, not_empty | PCRE2_NO_JIT);
    if (groups == PCRE2_ERROR_NOMATCH && not_empty == 0) break;
    if (groups == PCRE2_ERROR_NOMATCH) {
      from += from < text.size() ? static_cast<size_t>(tokenizer::utf8_length(static_cast<unsigned char>(text[from]))) : 1;
      not_empty = 0;
      continue;
    }
    if (groups < 0)
      throw UserError(ExitCode::bad_data, fmt::format("regular expression '{}': {}", code_->pattern, pcre::message(groups)),
                      "the pattern needs too much work on this text; simplify it");
    const auto* bounds = pcre2_get_ovector_pointer(data.get());
    Place place{bounds[0], bounds[1], {}};
    for (uint32_t i = 0; i < pcre2_get_ovector_count(data.get()); ++i) {
      bool takes_part = static_cast<int>(i) < groups && bounds[2 * i] != PCRE2_UNSET;
      place.groups.push_back(
          takes_part ? std::optional(std::string(text.substr(bounds[2 * i], bounds[2 * i + 1] - bounds[2 * i]))) : std::nullopt);
    }
    from = place.end;
    not_empty = place.begin == place.end ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
    found.push_back(std::move(place));
  }
  return found;
}

std::vector<PythonRegex::Match> PythonRegex::find_all(std::string_view text) const {
  std::vector<Match> matches;
  for (auto& place : places(text, 0)) matches.push_back(std::move(place.groups));
  return matches;
}

std::optional<std::string> PythonRegex::group_of(const Match& match, std::string_view name) const {
  int index = -1;
  if (std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc())
    index = pcre2_substring_number_from_name(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(std::string(name).c_str()));
  if (index < 0 || index >= static_cast<int>(match.size()))
    throw UserError(ExitCode::bad_data, fmt::format("regular expression '{}': there is no group {}", code_->pattern, name));
  return match[static_cast<size_t>(index)];
}

std::string PythonRegex::replace(std::string_view text, std::string_view replacement, int64_t count) const {
  std::string out, repaired;
  auto valid = tokenizer::valid_utf8(text, repaired);
  size_t done = 0;
  for (const auto& place : places(text, count)) {
    out += valid.substr(done, place.begin - done);
    for (size_t i = 0; i < replacement.size(); ++i) {
      char c = replacement[i];
      if (c != '\\' || i + 1 == replacement.size()) {
        out += c;
        continue;
      }
      char next = replacement[++i];
      if (next >= '0' && next <= '9') {
        out += group_of(place.groups, std::string_view(&next, 1)).value_or("");
      } else if (next == 'g' && i + 1 < replacement.size() && replacement[i + 1] == '<') {
        auto close = std::min(replacement.find('>', i), replacement.size());
        out += group_of(place.groups, replacement.substr(i + 2, close - i - 2)).value_or("");
        i = close;
      } else {
        out += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      }
    }
    done = place.end;
  }
  return out += valid.substr(done);
}

}  // namespace hone::text
