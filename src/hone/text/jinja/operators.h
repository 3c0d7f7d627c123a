// Python's arithmetic and comparison on template values.
#pragma once
#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOperator { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

Value apply(Interpreter& interpreter, BinaryOperator op, const Value& left, const Value& right);
bool compare(Interpreter& interpreter, CompareOperator op, const Value& left, const Value& right);
Value negate(const Value& value);
Value positive(const Value& value);

}  // namespace hone::text::jinja
