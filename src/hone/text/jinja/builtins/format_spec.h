// Python's format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = '\0';
};

FormatSpec parse_spec(std::string_view text);

std::string format_text(Interpreter& interpreter, const std::string& text, const FormatSpec& spec);
std::string format_number(Interpreter& interpreter, const Value& value, const FormatSpec& spec);
// Filled up to the width; `sign` precedes the fill if the alignment is '='.
std::string align_text(Interpreter& interpreter, const std::string& sign, const std::string& body, const FormatSpec& spec,
                       char default_align);

// A number at `at`, which moves behind it.
int64_t read_number(std::string_view text, size_t& at);
bool is_digit_at(std::string_view text, size_t at);
int checked_precision(int64_t precision);  // throws TemplateFailure above 500

}  // namespace hone::text::jinja
