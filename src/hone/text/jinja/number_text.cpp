#include "hone/text/jinja/number_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

// Digits may be separated by single underscores.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    auto is_digit_at = [&](size_t at) { return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])); };
    if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) throw TemplateFailure("int() base must be >= 2 and <= 36, or 0");
  text = strip_space(text, Side::both);
  bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    char mark = static_cast<char>(text[1] | 0x20);
    int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty() || digits->front() == '-') return std::nullopt;
  if (base == 0 && digits->front() == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
  std::string signed_digits = (negative ? "-" : "") + *digits;
  int64_t value = 0;
  auto result = std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value,
                                base == 0 ? 10 : static_cast<int>(base));
  if (result.ptr != signed_digits.data() + signed_digits.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) throw TemplateFailure("integer does not fit 64 bits");
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  std::optional<std::string> digits = without_underscores(strip_space(text, Side::both));
  if (!digits || digits->empty()) return std::nullopt;
  if (digits->find_first_of("xXpP(") != std::string::npos) return std::nullopt;  // C reads hexadecimal, Python does not
  char* end = nullptr;
  double value = std::strtod(digits->c_str(), &end);
  return end == digits->c_str() + digits->size() ? std::optional(value) : std::nullopt;
}

int64_t truncate_real(double value) {
  if (std::isnan(value)) throw TemplateFailure("cannot convert float NaN to integer");
  if (std::isinf(value)) throw TemplateFailure("cannot convert float infinity to integer");
  if (value >= 0x1p63 || value < -0x1p63) throw TemplateFailure("integer does not fit 64 bits");
  return static_cast<int64_t>(value);
}

double round_real(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", value, static_cast<int>(digits)).c_str(), nullptr);
  double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  int64_t quotient = value / unit, rest = value % unit;
  int64_t twice = 2 * (rest < 0 ? -rest : rest);
  if (twice > unit || (twice == unit && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result)) throw TemplateFailure("integer result does not fit 64 bits");
  return Value::integer(result);
}

}  // namespace hone::text::jinja
