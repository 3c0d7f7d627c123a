#include "hone/engine/constraints/decimal.h"

#include <array>
#include <charconv>
#include <cmath>

namespace hone::engine {
namespace {

// digits * 10^exponent
struct Scientific {
  bool negative;
  std::string digits;
  int exponent;
};

// The shortest representation of a double that reads back as the same number, or all digits of a long integer.
std::string spelled(const Json& number) {
  if (!number.is_number_float()) return number.dump();
  auto value = number.get<double>();
  if (std::abs(value) >= 0x1p53) return fmt::format("{:.0f}", value);
  std::array<char, 64> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific).ptr;
  return {text.data(), end};
}

Scientific scientific(const Json& number) {
  auto text = spelled(number);
  std::string_view left = text;
  Scientific result{left.starts_with('-'), {}, 0};
  if (result.negative) left.remove_prefix(1);
  auto power = left.find('e');
  if (power != left.npos) result.exponent = std::stoi(std::string(left.substr(power + 1)));
  bool behind_point = false;
  for (char c : left.substr(0, power)) {
    if (c == '.') {
      behind_point = true;
      continue;
    }
    result.digits += c;
    result.exponent -= behind_point;
  }
  return result;
}

WholeNumber whole(bool negative, std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return {};
  return {negative, std::move(digits)};
}

// Rounds towards 0; `inexact`: whether digits were dropped.
WholeNumber truncated(const Json& number, int decimals, bool& inexact) {
  auto [negative, digits, exponent] = scientific(number);
  exponent += decimals;
  if (exponent >= 0) return whole(negative, digits + std::string(static_cast<size_t>(exponent), '0'));
  auto kept = digits.size() - std::min(digits.size(), static_cast<size_t>(-exponent));
  inexact = digits.find_first_not_of('0', kept) != digits.npos;
  return whole(negative, digits.substr(0, kept));
}

std::string counted_up(std::string digits) {
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '9') return ++*digit, digits;
    *digit = '0';
  }
  return "1" + digits;
}

std::string counted_down(std::string digits) {  // greater than 0
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '0') return --*digit, digits;
    *digit = '9';
  }
  return digits;
}

}  // namespace

bool operator<(const WholeNumber& one, const WholeNumber& other) {
  if (one.negative != other.negative) return one.negative;
  const auto &small = one.negative ? other.digits : one.digits, &large = one.negative ? one.digits : other.digits;
  return small.size() != large.size() ? small.size() < large.size() : small < large;
}

WholeNumber plus_one(const WholeNumber& number) {
  return number.negative ? whole(true, counted_down(number.digits)) : whole(false, counted_up(number.digits));
}

WholeNumber minus_one(const WholeNumber& number) {
  bool positive = !number.negative && number.digits != "0";
  return positive ? whole(false, counted_down(number.digits)) : whole(true, counted_up(number.digits));
}

WholeNumber scaled_up(const Json& number, int decimals) {
  bool inexact = false, negative = scientific(number).negative;
  auto result = truncated(number, decimals, inexact);
  return inexact && !negative ? plus_one(result) : result;
}

WholeNumber scaled_down(const Json& number, int decimals) {
  bool inexact = false, negative = scientific(number).negative;
  auto result = truncated(number, decimals, inexact);
  return inexact && negative ? minus_one(result) : result;
}

}  // namespace hone::engine
