// Numbers within bounds, digit by digit.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "hone/engine/constraints/decimal.h"
#include "hone/engine/constraints/json_rules.h"

namespace hone::engine {
namespace {

constexpr size_t kIntegerDigits = 15;  // without a bound: digits that every JSON reader represents exactly
constexpr size_t kDecimalDigits = 9;   // before the decimal point, without a bound
constexpr int kMostDecimals = 8;

// Each pattern is built once: a schema with many numbers reuses them.
const Pattern& digit(char low, char high) {
  static const auto all = [] {
    std::array<std::array<Pattern, 10>, 10> made;
    for (uint32_t from = 0; from < 10; ++from)
      for (uint32_t to = from; to < 10; ++to) made[from][to] = pattern_characters({{'0' + from, '0' + to}});
    return made;
  }();
  return all[static_cast<size_t>(low - '0')][static_cast<size_t>(high - '0')];
}
Pattern any_digits(size_t least, size_t most) {
  return pattern_repeat(digit('0', '9'), static_cast<int>(least), static_cast<int>(most));
}
Pattern any_digits(size_t count) { return any_digits(count, count); }

// Between two numbers with the same number of digits, of which the last `decimals` follow the point.
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

// The numbers low / 10^decimals to high / 10^decimals, with all decimals written; neither is negative.
Pattern naturals_between(const std::string& low, const std::string& high, size_t decimals) {
  auto padded = [&](const std::string& digits) {
    return digits.size() > decimals ? digits : std::string(decimals + 1 - digits.size(), '0') + digits;
  };
  auto first = padded(low), last = padded(high);
  if (first.size() == last.size()) return same_length(first, last, decimals);
  std::vector<Pattern> parts{same_length(first, std::string(first.size(), '9'), decimals),
                             same_length("1" + std::string(last.size() - 1, '0'), last, decimals)};
  if (first.size() + 1 < last.size()) {  // all numbers of the lengths between
    parts.push_back(pattern_sequence({digit('1', '9'), any_digits(first.size() - decimals, last.size() - 2 - decimals),
                                      decimals > 0 ? pattern_text(".") : pattern_sequence({}), any_digits(decimals)}));
  }
  return pattern_choice(std::move(parts));
}

Pattern scaled_between(const WholeNumber& low, const WholeNumber& high, size_t decimals) {
  if (high < low) return pattern_nothing();
  std::vector<Pattern> parts;
  if (!high.negative) parts.push_back(naturals_between(low.negative ? "0" : low.digits, high.digits, decimals));
  if (low.negative)
    parts.push_back(
        pattern_sequence({pattern_text("-"), naturals_between(high.negative ? high.digits : "1", low.digits, decimals)}));
  return pattern_choice(std::move(parts));
}

struct Bounds {
  std::optional<WholeNumber> low, high;  // each inside
};

const Json* bound(const Json& schema, const char* name) {
  auto found = schema.find(name);
  if (found == schema.end()) return nullptr;
  if (!found->is_number()) throw UnsupportedSchema{fmt::format("\"{}\" is {}; expected a number", name, found->dump())};
  return &*found;
}

void raise_to(std::optional<WholeNumber>& low, WholeNumber to) {
  if (!low || *low < to) low = std::move(to);
}
void lower_to(std::optional<WholeNumber>& high, WholeNumber to) {
  if (!high || to < *high) high = std::move(to);
}

Bounds whole_bounds(const Json& schema) {
  Bounds bounds;
  if (auto* number = bound(schema, "minimum")) raise_to(bounds.low, scaled_up(*number, 0));
  if (auto* number = bound(schema, "maximum")) lower_to(bounds.high, scaled_down(*number, 0));
  if (auto* number = bound(schema, "exclusiveMinimum")) raise_to(bounds.low, plus_one(scaled_down(*number, 0)));
  if (auto* number = bound(schema, "exclusiveMaximum")) lower_to(bounds.high, minus_one(scaled_up(*number, 0)));
  return bounds;
}

// Texts just outside an open bound may be read as the bound itself: the nearest double beyond it is inside for every reader.
Json next_after(const Json& number, double direction) { return std::nextafter(number.get<double>(), direction); }

Bounds decimal_bounds(const Json& schema, int decimals) {
  constexpr double kEndless = std::numeric_limits<double>::max();
  Bounds bounds;
  if (auto* number = bound(schema, "minimum")) raise_to(bounds.low, scaled_up(*number, decimals));
  if (auto* number = bound(schema, "maximum")) lower_to(bounds.high, scaled_down(*number, decimals));
  if (auto* number = bound(schema, "exclusiveMinimum")) raise_to(bounds.low, scaled_up(next_after(*number, kEndless), decimals));
  if (auto* number = bound(schema, "exclusiveMaximum"))
    lower_to(bounds.high, scaled_down(next_after(*number, -kEndless), decimals));
  return bounds;
}

// For an unbounded side: this many digits, or one more than the other side's bound has.
Pattern between(const Bounds& bounds, size_t digits, int decimals) {
  auto most = digits + static_cast<size_t>(decimals);
  if (bounds.low) most = std::max(most, bounds.low->digits.size() + 1);
  if (bounds.high) most = std::max(most, bounds.high->digits.size() + 1);
  std::string nines(most, '9');
  return scaled_between(bounds.low.value_or(WholeNumber{true, nines}), bounds.high.value_or(WholeNumber{false, nines}),
                        static_cast<size_t>(decimals));
}

}  // namespace

Pattern json_integer(const Json& schema) {
  static const Pattern any = between({}, kIntegerDigits, 0);
  auto bounds = whole_bounds(schema);
  return bounds.low || bounds.high ? between(bounds, kIntegerDigits, 0) : any;
}

Pattern json_number(const Json& schema) {
  auto names = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
  if (std::ranges::none_of(names, [&](const char* name) { return schema.contains(name); })) {
    static const Pattern any = pattern_of(R"(-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?)");
    return any;
  }
  std::vector<Pattern> parts{json_integer(schema)};
  for (int decimals = 1; decimals <= kMostDecimals; ++decimals)
    parts.push_back(between(decimal_bounds(schema, decimals), kDecimalDigits, decimals));
  return pattern_choice(std::move(parts));
}

}  // namespace hone::engine
