#include "hone/text/jinja/syntax/number_literal.h"

namespace hone::text::jinja {

namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_sign_at(std::string_view source, size_t i) { return i < source.size() && (source[i] == '-' || source[i] == '+'); }

// Digits with single underscores between them, from `i`.
size_t digits_end(std::string_view source, size_t i) {
  size_t end = i;
  while (end < source.size() && (is_ascii_digit(source[end]) || (source[end] == '_' && end > i && source[end - 1] != '_'))) ++end;
  while (end > i && source[end - 1] == '_') --end;
  return end;
}

size_t exponent_end(std::string_view source, size_t i) {
  if (i >= source.size() || (source[i] != 'e' && source[i] != 'E')) return 0;
  size_t digits = i + 1 + (is_sign_at(source, i + 1) ? 1 : 0);
  size_t end = digits_end(source, digits);
  return end > digits ? end : 0;
}

}  // namespace

size_t real_literal_length(std::string_view source, size_t at) {
  if (!is_ascii_digit(source[at]) || (at > 0 && source[at - 1] == '.')) return 0;
  size_t whole = digits_end(source, at);
  size_t fraction = whole;
  if (whole + 1 < source.size() && source[whole] == '.' && is_ascii_digit(source[whole + 1]))
    fraction = digits_end(source, whole + 1);
  if (size_t end = exponent_end(source, fraction)) return end - at;
  return fraction > whole ? fraction - at : 0;
}

size_t integer_literal_length(std::string_view source, size_t at) {
  char c = source[at];
  if (!is_ascii_digit(c)) return 0;
  if (c == '0' && at + 1 < source.size()) {
    char base = static_cast<char>(source[at + 1] | 0x20);
    std::string_view allowed = base == 'x' ? "0123456789abcdefABCDEF" : base == 'o' ? "01234567" : base == 'b' ? "01" : "";
    size_t end = at + 2;
    while (!allowed.empty() && end < source.size()) {
      size_t digit = end + (source[end] == '_' ? 1 : 0);
      if (digit >= source.size() || allowed.find(source[digit]) == std::string_view::npos) break;
      end = digit + 1;
    }
    if (end > at + 2) return end - at;
  }
  size_t end = at + 1;
  while (end < source.size()) {
    size_t digit = end + (source[end] == '_' ? 1 : 0);
    if (digit >= source.size() || !is_ascii_digit(source[digit]) || (c == '0' && source[digit] != '0')) break;
    end = digit + 1;
  }
  return end - at;
}

}  // namespace hone::text::jinja
