// Python's text formatting: "%s" % x, "{}".format(x), and the format specification of both.
#pragma once
#include <string>
#include <string_view>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

std::string percent_format(Interpreter& interpreter, std::string_view format, const Value& arguments);
std::string brace_format(Interpreter& interpreter, std::string_view format, const Arguments& arguments);
// format(value, spec)
std::string format_value(Interpreter& interpreter, const Value& value, std::string_view spec);

}  // namespace hone::text::jinja
