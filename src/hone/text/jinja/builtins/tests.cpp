#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/operators.h"

namespace hone::text::jinja {

namespace {

template <bool (*predicate)(const Value&)>
bool plain(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound("test", arguments, {});
  return predicate(subject);
}

bool is_defined(const Value& value) { return !value.is(Kind::undefined); }
bool is_undefined(const Value& value) { return value.is(Kind::undefined); }
bool is_none(const Value& value) { return value.is(Kind::none); }
bool is_boolean(const Value& value) { return value.is(Kind::boolean); }
bool is_true(const Value& value) { return value.is(Kind::boolean) && value.as_bool(); }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.as_bool(); }
bool is_integer(const Value& value) { return value.is(Kind::integer); }
bool is_float(const Value& value) { return value.is(Kind::real); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is(Kind::string); }
bool is_mapping(const Value& value) { return value.is(Kind::dict); }
bool is_escaped(const Value& value) { return value.is_markup(); }

bool is_iterable(const Value& value) {
  if (value.is(Kind::native)) return value.as_native().is_iterable() || value.as_native().type_name() == "LoopContext";
  return value.is(Kind::string) || value.is(Kind::list) || value.is(Kind::dict) || value.is(Kind::undefined);
}

// jinja2 looks up a length and indexing by name; an undefined value has both.
bool is_sequence(const Value& value) {
  if (value.is(Kind::list)) return value.as_list().flavor <= Sequence::range;
  return value.is(Kind::string) || value.is(Kind::dict) || value.is(Kind::undefined);
}

bool is_callable(const Value& value) {
  return value.is(Kind::undefined) || (value.is(Kind::native) && value.as_native().is_callable());
}

bool remainder_is(Interpreter& interpreter, const Value& subject, int64_t divisor, int64_t wanted) {
  return equal(apply(interpreter, BinaryOperator::modulo, subject, Value::integer(divisor)), Value::integer(wanted));
}

bool odd(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("odd", arguments, {});
  return remainder_is(interpreter, subject, 2, 1);
}

bool even(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("even", arguments, {});
  return remainder_is(interpreter, subject, 2, 0);
}

bool divisible_by(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("divisibleby", arguments, {"num"}, 1);
  return equal(apply(interpreter, BinaryOperator::modulo, subject, bound[0]), Value::integer(0));
}

template <CompareOperator op>
bool comparison(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("test", arguments, {"other"}, 1);
  return compare(interpreter, op, subject, bound[0]);
}

bool same_as(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("sameas", arguments, {"other"}, 1);
  if (subject.kind() != bound[0].kind()) return false;
  switch (subject.kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
    case Kind::integer:
      return subject.as_integer() == bound[0].as_integer();
    case Kind::real:
      return false;
    case Kind::string:
      return subject.text() == bound[0].text();
    default:
      return subject.identity() == bound[0].identity();
  }
}

bool lower(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("lower", arguments, {});
  return is_lower_text(interpreter.to_text(subject));
}

bool upper(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("upper", arguments, {});
  return is_upper_text(interpreter.to_text(subject));
}

bool is_filter(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound("filter", arguments, {});
  return subject.is(Kind::string) && find_filter(subject.text()) != nullptr;
}

bool is_test(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound("test", arguments, {});
  return subject.is(Kind::string) && find_test(subject.text()) != nullptr;
}

struct TestEntry {
  std::string_view name;
  Test test;
};

constexpr TestEntry kTests[] = {
    {"defined", plain<is_defined>},
    {"none", plain<is_none>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"iterable", plain<is_iterable>},
    {"sequence", plain<is_sequence>},
    {"undefined", plain<is_undefined>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"boolean", plain<is_boolean>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"lower", lower},
    {"upper", upper},
    {"sameas", same_as},
    {"filter", is_filter},
    {"test", is_test},
    {"in", comparison<CompareOperator::in>},
    {"==", comparison<CompareOperator::equal>},
    {"eq", comparison<CompareOperator::equal>},
    {"equalto", comparison<CompareOperator::equal>},
    {"!=", comparison<CompareOperator::not_equal>},
    {"ne", comparison<CompareOperator::not_equal>},
    {">", comparison<CompareOperator::greater>},
    {"gt", comparison<CompareOperator::greater>},
    {"greaterthan", comparison<CompareOperator::greater>},
    {"ge", comparison<CompareOperator::greater_equal>},
    {">=", comparison<CompareOperator::greater_equal>},
    {"<", comparison<CompareOperator::less>},
    {"lt", comparison<CompareOperator::less>},
    {"lessthan", comparison<CompareOperator::less>},
    {"<=", comparison<CompareOperator::less_equal>},
    {"le", comparison<CompareOperator::less_equal>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const TestEntry& entry : kTests)
    if (entry.name == name) return entry.test;
  return nullptr;
}

Filter find_filter(std::string_view name) {
  if (Filter filter = find_text_filter(name)) return filter;
  if (Filter filter = find_sequence_filter(name)) return filter;
  if (Filter filter = find_markup_filter(name)) return filter;
  if (Filter filter = find_number_filter(name)) return filter;
  return find_selection_filter(name);
}

}  // namespace hone::text::jinja
