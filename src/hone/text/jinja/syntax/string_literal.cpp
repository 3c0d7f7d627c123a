#include "hone/text/jinja/syntax/string_literal.h"

#include <fmt/format.h>

#include "hone/base/strings/hex.h"
#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/unicode.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

namespace {

char32_t read_hex(std::string_view body, size_t& at, int digits, int line) {
  char32_t point = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    int digit = at < body.size() ? hex_value(body[at]) : -1;
    if (digit < 0) throw TemplateFailure("truncated \\x, \\u or \\U escape in a string", line);
    point = point * 16 + static_cast<char32_t>(digit);
  }
  if (point > 0x10FFFF) throw TemplateFailure("illegal Unicode character in a string escape", line);
  return point;
}

char32_t read_octal(std::string_view body, size_t& at) {
  char32_t point = 0;
  for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i, ++at)
    point = point * 8 + (body[at] - '0');
  return point;
}

// jinja2 escapes non-ASCII characters before it decodes all escapes, so a backslash before one escapes that backslash.
void append_escaped_beyond_ascii(std::string& out, char32_t point) {
  if (point < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(point));
  } else if (point < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(point));
  }
}

void append_escape(std::string& out, std::string_view body, size_t& at, int line) {
  char c = body[at];
  static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
  if (size_t i = kNames.find(c); i != std::string_view::npos) {
    out += kValues[i];
    ++at;
  } else if (c == '\n') {
    ++at;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    ++at;
    append_utf8(out, read_hex(body, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, line));
  } else if (c >= '0' && c <= '7') {
    append_utf8(out, read_octal(body, at));
  } else if (c == 'N') {
    throw TemplateFailure("\\N escapes are not supported in template strings", line);
  } else if (static_cast<unsigned char>(c) >= 0x80) {
    append_escaped_beyond_ascii(out, next_code_point(body, at));
  } else {
    out += '\\';
    out += c;
    ++at;
  }
}

}  // namespace

std::string unescape_string_literal(std::string_view body, int line) {
  std::string out;
  out.reserve(body.size());
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out += body[at++];
      continue;
    }
    ++at;
    append_escape(out, body, at, line);
  }
  return out;
}

}  // namespace hone::text::jinja
