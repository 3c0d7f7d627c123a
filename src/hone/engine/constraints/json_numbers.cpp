// Numbers within bounds, digit by digit.
#include <algorithm>
#include <cmath>

#include "hone/engine/constraints/json_parts.h"

namespace hone::engine {
namespace {

constexpr int64_t kLargestInteger = 999'999'999'999'999;  // what every reader of JSON holds exactly
constexpr double kLargestDecimal = 1e9;                   // beyond it numbers with bounds are whole
constexpr int kMostDecimals = 8;

Pattern digit(char low, char high) { return pattern_characters({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}}); }
Pattern any_digits(size_t count) { return pattern_repeat(digit('0', '9'), static_cast<int>(count), static_cast<int>(count)); }

// Between two numbers of the same number of digits, of which the last `decimals` stand behind a point.
Pattern same_length(std::string_view low, std::string_view high, size_t decimals) {
  if (decimals > 0 && low.size() == decimals) return pattern_sequence({pattern_text("."), same_length(low, high, 0)});
  bool any = low.find_first_not_of('0') == low.npos && high.find_first_not_of('9') == high.npos;
  if (any && decimals == 0) return any_digits(low.size());
  if (any) return pattern_sequence({any_digits(low.size() - decimals), pattern_text("."), any_digits(decimals)});
  if (low[0] == high[0]) return pattern_sequence({digit(low[0], low[0]), same_length(low.substr(1), high.substr(1), decimals)});
  std::string nines(low.size() - 1, '9'), zeros(low.size() - 1, '0');
  std::vector<Pattern> parts{pattern_sequence({digit(low[0], low[0]), same_length(low.substr(1), nines, decimals)}),
                             pattern_sequence({digit(high[0], high[0]), same_length(zeros, high.substr(1), decimals)})};
  if (low[0] + 1 < high[0]) {
    auto between = digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1));
    parts.push_back(pattern_sequence({between, same_length(zeros, nines, decimals)}));
  }
  return pattern_choice(std::move(parts));
}

// The numbers low / 10^decimals to high / 10^decimals, all decimals written.
Pattern naturals_between(uint64_t low, uint64_t high, size_t decimals) {
  std::vector<Pattern> parts;
  auto padded = [&](uint64_t value) {
    auto digits = std::to_string(value);
    return digits.size() > decimals ? digits : std::string(decimals + 1 - digits.size(), '0') + digits;
  };
  auto first = padded(low), last = padded(high);
  for (size_t digits = first.size(); digits <= last.size(); ++digits) {
    auto from = digits == first.size() ? first : "1" + std::string(digits - 1, '0');
    auto to = digits == last.size() ? last : std::string(digits, '9');
    parts.push_back(same_length(from, to, decimals));
  }
  return pattern_choice(std::move(parts));
}

Pattern scaled_between(int64_t low, int64_t high, size_t decimals) {
  std::vector<Pattern> parts;
  if (low > high) return pattern_nothing();
  auto natural = [](int64_t value) { return static_cast<uint64_t>(value); };
  if (high >= 0) parts.push_back(naturals_between(natural(std::max<int64_t>(low, 0)), natural(high), decimals));
  if (low < 0)
    parts.push_back(
        pattern_sequence({pattern_text("-"), naturals_between(natural(-std::min<int64_t>(high, -1)), natural(-low), decimals)}));
  return pattern_choice(std::move(parts));
}

struct Bounds {
  double low, high;
  bool low_open, high_open;  // the bound itself is outside
};

Bounds bounds_of(const Json& schema, double least, double most) {
  Bounds bounds{least, most, false, false};
  auto number = [&](const char* name, double otherwise) {
    return schema.contains(name) ? schema[name].get<double>() : otherwise;
  };
  bounds.low = std::max(bounds.low, number("minimum", least));
  bounds.high = std::min(bounds.high, number("maximum", most));
  if (auto open = number("exclusiveMinimum", least - 1); open >= bounds.low) bounds.low = open, bounds.low_open = true;
  if (auto open = number("exclusiveMaximum", most + 1); open <= bounds.high) bounds.high = open, bounds.high_open = true;
  return bounds;
}

// The numbers of so many decimals inside the bounds. What rounding would put outside is left out.
Pattern of_decimals(const Bounds& bounds, int decimals) {
  double scale = std::pow(10.0, decimals);
  auto low = static_cast<int64_t>(std::ceil(bounds.low * scale)), high = static_cast<int64_t>(std::floor(bounds.high * scale));
  auto value = [&](int64_t scaled) { return static_cast<double>(scaled) / scale; };
  while (low <= high && (value(low) < bounds.low || (bounds.low_open && value(low) <= bounds.low))) ++low;
  while (low <= high && (value(high) > bounds.high || (bounds.high_open && value(high) >= bounds.high))) --high;
  return scaled_between(low, high, static_cast<size_t>(decimals));
}

}  // namespace

Pattern json_integer(const Json& schema) {
  return of_decimals(bounds_of(schema, -static_cast<double>(kLargestInteger), static_cast<double>(kLargestInteger)), 0);
}

Pattern json_number(const Json& schema) {
  bool bounded = false;
  for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) bounded |= schema.contains(name);
  if (!bounded) return pattern_of(R"(-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?)");
  std::vector<Pattern> parts{json_integer(schema)};
  auto decimal = bounds_of(schema, -kLargestDecimal, kLargestDecimal);
  for (int decimals = 1; decimals <= kMostDecimals; ++decimals) parts.push_back(of_decimals(decimal, decimals));
  return pattern_choice(std::move(parts));
}

}  // namespace hone::engine
