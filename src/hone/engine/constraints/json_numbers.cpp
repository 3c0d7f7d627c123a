#include <algorithm>

#include "hone/engine/constraints/json_schema.h"

namespace hone::engine {
namespace {

Pattern digit(char low, char high) { return pattern_characters({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}}); }
Pattern any_digits(size_t count) { return pattern_repeat(digit('0', '9'), static_cast<int>(count), static_cast<int>(count)); }

// Between two numbers of the same number of digits.
Pattern same_length(std::string_view low, std::string_view high) {
  if (low.find_first_not_of('0') == low.npos && high.find_first_not_of('9') == high.npos) return any_digits(low.size());
  if (low[0] == high[0]) return pattern_sequence({digit(low[0], low[0]), same_length(low.substr(1), high.substr(1))});
  size_t rest = low.size() - 1;
  std::vector<Pattern> parts{pattern_sequence({digit(low[0], low[0]), same_length(low.substr(1), std::string(rest, '9'))}),
                             pattern_sequence({digit(high[0], high[0]), same_length(std::string(rest, '0'), high.substr(1))})};
  if (low[0] + 1 < high[0]) parts.push_back(pattern_sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), any_digits(rest)}));
  return pattern_choice(std::move(parts));
}

Pattern naturals_between(uint64_t low, uint64_t high) {
  std::vector<Pattern> parts;
  auto first = std::to_string(low), last = std::to_string(high);
  for (size_t digits = first.size(); digits <= last.size(); ++digits) {
    auto from = digits == first.size() ? first : "1" + std::string(digits - 1, '0');
    auto to = digits == last.size() ? last : std::string(digits, '9');
    parts.push_back(same_length(from, to));
  }
  return pattern_choice(std::move(parts));
}

}  // namespace

Pattern integers_between(int64_t low, int64_t high) {
  std::vector<Pattern> parts;
  if (low > high) return pattern_nothing();
  if (high >= 0) parts.push_back(naturals_between(static_cast<uint64_t>(std::max<int64_t>(low, 0)), static_cast<uint64_t>(high)));
  if (low < 0) parts.push_back(pattern_sequence({pattern_text("-"), naturals_between(static_cast<uint64_t>(-std::min<int64_t>(high, -1)), static_cast<uint64_t>(-low))}));
  return pattern_choice(std::move(parts));
}

}  // namespace hone::engine
