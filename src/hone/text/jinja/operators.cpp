#include "hone/text/jinja/operators.h"

#include <cmath>
#include <limits>

#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/builtins/text_operations.h"

namespace hone::text::jinja {

namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(BinaryOperator op, const Value& left, const Value& right) {
  throw TemplateFailure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<int>(op)],
                                    type_name(left), type_name(right)));
}

[[noreturn]] void overflow() { throw TemplateFailure("integer result does not fit 64 bits"); }
[[noreturn]] void zero_division() { throw TemplateFailure("division by zero"); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) zero_division();
  if (a == std::numeric_limits<int64_t>::min() && b == -1) overflow();
  int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == 0) zero_division();
  if (b == -1) return 0;
  int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double real_modulo(double a, double b) {
  if (b == 0) zero_division();
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double real_floor_divide(double a, double b) {
  double remainder = real_modulo(a, b);
  double quotient = (a - remainder) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw TemplateFailure("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return Value::integer(result);
}

Value integer_arithmetic(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOperator::add:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOperator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOperator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOperator::divide:
      if (b == 0) zero_division();
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::floor_divide:
      return Value::integer(floor_divide(a, b));
    case BinaryOperator::modulo:
      return Value::integer(floor_modulo(a, b));
    case BinaryOperator::power:
      return integer_power(a, b);
  }
  return Value();
}

Value real_arithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::add:
      return Value::real(a + b);
    case BinaryOperator::subtract:
      return Value::real(a - b);
    case BinaryOperator::multiply:
      return Value::real(a * b);
    case BinaryOperator::divide:
      if (b == 0) zero_division();
      return Value::real(a / b);
    case BinaryOperator::floor_divide:
      return Value::real(real_floor_divide(a, b));
    case BinaryOperator::modulo:
      return Value::real(real_modulo(a, b));
    case BinaryOperator::power: {
      if (a == 0 && b < 0) throw TemplateFailure("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) throw TemplateFailure("complex results are not supported");
      double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) throw TemplateFailure("numerical result out of range");
      return Value::real(result);
    }
  }
  return Value();
}

bool is_plain_sequence(const Value& value) { return value.is(Kind::list) && value.as_list().flavor <= Sequence::tuple; }

Value repeat(Interpreter& interpreter, const Value& sequence, int64_t count) {
  size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  if (sequence.is(Kind::string)) {
    const std::string& text = sequence.text();
    size_t total = 0;
    if (__builtin_mul_overflow(text.size(), times, &total)) total = std::numeric_limits<size_t>::max();
    interpreter.check_size(total);
    interpreter.charge_bytes(total);
    std::string out;
    out.reserve(total);
    if (!text.empty())
      for (size_t i = 0; i < times; ++i) out += text;
    return like_origin(sequence, Value::string(std::move(out)));
  }
  const ListObject& list = sequence.as_list();
  size_t total = 0;
  if (__builtin_mul_overflow(list.items.size(), times, &total)) total = std::numeric_limits<size_t>::max() / 2;
  interpreter.step(total);
  std::vector<Value> items;
  if (!list.items.empty())
    for (size_t i = 0; i < times; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  return make_list(std::move(items), list.flavor);
}

Value add_sequences(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.is_markup() || right.is_markup()) {
    auto escaped = [](const Value& value) { return value.is_markup() ? value.text() : escape_html(value.text()); };
    std::string text = escaped(left) + escaped(right);
    interpreter.check_size(text.size());
    interpreter.charge_bytes(text.size());
    return Value::markup(std::move(text));
  }
  if (left.is(Kind::string)) {
    interpreter.check_size(left.text().size() + right.text().size());
    return interpreter.string(left.text() + right.text());
  }
  std::vector<Value> items = left.as_list().items;
  items.insert(items.end(), right.as_list().items.begin(), right.as_list().items.end());
  return interpreter.list(std::move(items), left.as_list().flavor);
}

bool can_add(const Value& left, const Value& right) {
  if (left.is(Kind::string) && right.is(Kind::string)) return true;
  return is_plain_sequence(left) && is_plain_sequence(right) && left.as_list().flavor == right.as_list().flavor;
}

bool is_repeatable(const Value& value) { return value.is(Kind::string) || is_plain_sequence(value); }

}  // namespace

Value apply(Interpreter& interpreter, BinaryOperator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return integer_arithmetic(op, left.as_integer(), right.as_integer());
    return real_arithmetic(op, left.as_real(), right.as_real());
  }
  if (left.is(Kind::string) && op == BinaryOperator::modulo)
    return interpreter.string(percent_format(interpreter, left.text(), right));
  if (left.is(Kind::undefined)) throw TemplateFailure(left.as_undefined().explain());
  if (right.is(Kind::undefined)) throw TemplateFailure(right.as_undefined().explain());
  if (op == BinaryOperator::add && can_add(left, right)) return add_sequences(interpreter, left, right);
  if (op == BinaryOperator::multiply) {
    if (is_repeatable(left) && right.is_integral()) return repeat(interpreter, left, right.as_integer());
    if (is_repeatable(right) && left.is_integral()) return repeat(interpreter, right, left.as_integer());
  }
  if (op == BinaryOperator::add && left.is(Kind::string)) {
    throw TemplateFailure("can only concatenate str (not \"" + type_name(right) + "\") to str");
  }
  unsupported(op, left, right);
}

bool compare(Interpreter& interpreter, CompareOperator op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOperator::equal:
      return equal(left, right);
    case CompareOperator::not_equal:
      return !equal(left, right);
    case CompareOperator::less:
      return less_than(left, right);
    case CompareOperator::greater:
      return less_than(right, left);
    case CompareOperator::less_equal:
      return less_than(left, right) || equal(left, right);
    case CompareOperator::greater_equal:
      return less_than(right, left) || equal(left, right);
    case CompareOperator::in:
      return interpreter.contains(right, left);
    case CompareOperator::not_in:
      return !interpreter.contains(right, left);
  }
  return false;
}

Value negate(const Value& value) {
  if (value.is(Kind::real)) return Value::real(-value.as_real());
  if (value.is(Kind::undefined)) throw TemplateFailure(value.as_undefined().explain());
  if (!value.is_integral()) throw TemplateFailure("bad operand type for unary -: '" + type_name(value) + "'");
  if (value.as_integer() == std::numeric_limits<int64_t>::min()) overflow();
  return Value::integer(-value.as_integer());
}

Value positive(const Value& value) {
  if (value.is(Kind::undefined)) throw TemplateFailure(value.as_undefined().explain());
  if (!value.is_number()) throw TemplateFailure("bad operand type for unary +: '" + type_name(value) + "'");
  return value.is(Kind::real) ? value : Value::integer(value.as_integer());
}

}  // namespace hone::text::jinja
