// Filters that return numbers.
#include <cmath>

#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/number_text.h"
#include "hone/text/jinja/operators.h"

namespace hone::text::jinja {

namespace {

Value absolute(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound("abs", arguments, {});
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  if (!subject.is_number()) throw TemplateFailure("bad operand type for abs(): '" + type_name(subject) + "'");
  if (subject.is(Kind::real)) return Value::real(std::fabs(subject.as_real()));
  return subject.as_integer() < 0 ? negate(subject) : positive(subject);
}

Value to_integer(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("int", arguments, {"default", "base"});
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  Value fallback_value = bound.get(0, Value::integer(0));
  std::optional<int64_t> result;
  if (subject.is_integral()) result = subject.as_integer();
  if (subject.is(Kind::real)) result = truncate_real(subject.as_real());
  if (subject.is(Kind::string)) {
    result = parse_integer(subject.text(), bound.integer(1, 10));
    if (!result) {
      std::optional<double> real = parse_real(subject.text());
      if (real && std::isfinite(*real)) result = truncate_real(*real);
    }
  }
  return result ? Value::integer(*result) : fallback_value;
}

Value to_real(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("float", arguments, {"default"});
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  if (subject.is_number()) return Value::real(subject.as_real());
  std::optional<double> real = subject.is(Kind::string) ? parse_real(subject.text()) : std::nullopt;
  return real ? Value::real(*real) : bound.get(0, Value::real(0));
}

Value round(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("round", arguments, {"precision", "method"});
  int64_t precision = bound.integer(0, 0);
  std::string method = bound.has(1) ? bound.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor") throw TemplateFailure("method must be common, ceil or floor");
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  if (!subject.is_number()) throw TemplateFailure("type " + type_name(subject) + " doesn't define __round__ method");
  if (method == "common")
    return subject.is_integral() ? round_integer(subject.as_integer(), precision)
                                 : Value::real(round_real(subject.as_real(), precision));
  double scale = std::pow(10.0, static_cast<double>(precision));
  double scaled = subject.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr FilterEntry kNumberFilters[] = {{"abs", absolute}, {"int", to_integer}, {"float", to_real}, {"round", round}};

}  // namespace

Filter find_number_filter(std::string_view name) {
  for (const FilterEntry& entry : kNumberFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hone::text::jinja
