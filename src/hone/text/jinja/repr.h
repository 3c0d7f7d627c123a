// Python's repr() and str() of values.
#pragma once
#include <string>
#include <string_view>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

std::string repr(Interpreter& interpreter, const Value& value);
std::string repr_string(std::string_view text);
std::string repr_real(double value);  // shortest text that reads back as the same number

}  // namespace hone::text::jinja
