#include "hone/text/jinja/builtins/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/number_text.h"
#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

constexpr int kMaxPrecision = 500;

std::string print_real(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) {
    std::string name = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return type >= 'A' && type <= 'Z' ? to_upper(name) : name;
  }
  char format[8] = {'%', '.', '*', type, '\0'};
  if (alternate) std::copy_n("%#.*", 4, format), format[4] = type, format[5] = '\0';
  char buffer[1024];
  int written = std::snprintf(buffer, sizeof buffer, format, precision, value);
  if (written < 0 || static_cast<size_t>(written) >= sizeof buffer) throw TemplateFailure("precision too big");
  return std::string(buffer, static_cast<size_t>(written));
}

std::string group_digits(std::string digits, char separator, size_t every) {
  size_t end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > every;) {
    at -= every;
    digits.insert(at, 1, separator);
  }
  return digits;
}

std::string integer_digits(uint64_t magnitude, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return std::to_string(magnitude);
  }
}

}  // namespace

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  auto result = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (result.ec != std::errc()) throw TemplateFailure("Too many decimal digits in format string");
  at = static_cast<size_t>(result.ptr - text.data());
  return value;
}

bool is_digit_at(std::string_view text, size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; }

int checked_precision(int64_t precision) {
  if (precision > kMaxPrecision) throw TemplateFailure("precision too big");
  return static_cast<int>(precision);
}

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t after_fill = 0;
  if (!text.empty()) next_code_point(text, after_fill);
  if (after_fill > 0 && after_fill < text.size() && is_align(text[after_fill])) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    at = after_fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  auto take = [&](std::string_view allowed) {
    return at < text.size() && allowed.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0') {
    spec.zero = true;
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  if (is_digit_at(text, at)) spec.width = read_number(text, at);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    if (!is_digit_at(text, at)) throw TemplateFailure("Format specifier missing precision");
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw TemplateFailure("Invalid format specifier");
  return spec;
}

std::string align_text(Interpreter& interpreter, const std::string& sign, const std::string& body, const FormatSpec& spec,
                       char default_align) {
  int64_t missing = spec.width - count_code_points(sign) - count_code_points(body);
  if (missing <= 0) return sign + body;
  char align = spec.align == '\0' ? default_align : spec.align;
  int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  if (align == '=') return sign + repeat_text(interpreter, spec.fill, missing) + body;
  return repeat_text(interpreter, spec.fill, left) + sign + body + repeat_text(interpreter, spec.fill, missing - left);
}

std::string format_text(Interpreter& interpreter, const std::string& text, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's')
    throw TemplateFailure(fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
  if (spec.sign != '-') throw TemplateFailure("Sign not allowed in string format specifier");
  if (spec.align == '=' && !spec.zero) throw TemplateFailure("'=' alignment not allowed in string format specifier");
  FormatSpec used = spec;
  if (spec.zero && spec.align == '=') used.align = '<';
  std::string body = spec.precision ? text.substr(0, byte_offset(text, *spec.precision)) : text;
  return align_text(interpreter, "", body, used, '<');
}

std::string format_number(Interpreter& interpreter, const Value& value, const FormatSpec& spec) {
  bool negative = value.is(Kind::real) ? std::signbit(value.as_real()) : value.as_integer() < 0;
  std::string body;
  bool integral_type = spec.type == '\0' || std::string_view("dbcoxXn").find(spec.type) != std::string_view::npos;
  if (value.is_integral() && integral_type) {
    if (spec.precision) throw TemplateFailure("Precision not allowed in integer format specifier");
    if (spec.type == 'c') {
      append_utf8(body, static_cast<char32_t>(value.as_integer()));
      return align_text(interpreter, "", body, spec, '<');
    }
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value.as_integer()) : static_cast<uint64_t>(value.as_integer());
    body = integer_digits(magnitude, spec.type);
    bool decimal = spec.type == '\0' || spec.type == 'd' || spec.type == 'n';
    if (spec.grouping != '\0') body = group_digits(std::move(body), spec.grouping, decimal ? 3 : 4);
    if (spec.alternate && !decimal) body = "0" + std::string(1, spec.type) + body;
  } else {
    double magnitude = std::fabs(value.as_real());
    if (spec.type == '\0' && !spec.precision) {
      body = repr_real(magnitude);
    } else if (spec.type == '%') {
      body = print_real(magnitude * 100, 'f', checked_precision(spec.precision.value_or(6)), spec.alternate) + "%";
    } else {
      if (std::string_view("eEfFgGn").find(spec.type) == std::string_view::npos && spec.type != '\0') {
        throw TemplateFailure(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
      }
      char type = spec.type == '\0' || spec.type == 'n' ? 'g' : spec.type;
      body = print_real(magnitude, type, checked_precision(spec.precision.value_or(6)), spec.alternate);
      if (spec.type == '\0' && body.find_first_of(".en") == std::string::npos) body += ".0";
    }
    if (spec.grouping != '\0') body = group_digits(std::move(body), spec.grouping, 3);
  }
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return align_text(interpreter, sign, body, spec, '>');
}

std::string format_value(Interpreter& interpreter, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return interpreter.to_text(value);
  FormatSpec spec = parse_spec(spec_text);
  if (value.is(Kind::boolean) && spec.type == '\0') return format_text(interpreter, value.as_bool() ? "True" : "False", spec);
  if (value.is_number()) return format_number(interpreter, value, spec);
  if (value.is(Kind::string)) return format_text(interpreter, value.text(), spec);
  throw TemplateFailure("unsupported format string passed to " + type_name(value) + ".__format__");
}

}  // namespace hone::text::jinja
