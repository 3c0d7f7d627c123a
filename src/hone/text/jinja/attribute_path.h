// "a.b.0" as in the filters map, sort, groupby …: items or attributes to follow from a value.
#pragma once
#include <vector>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

class AttributePath {
 public:
  AttributePath() = default;  // leads to the value itself
  explicit AttributePath(const Value& attribute, Value fallback = Value::none());
  Value follow(Interpreter& interpreter, Value value) const;

 private:
  std::vector<Value> parts_;
  Value fallback_ = Value::none();  // none: an undefined stays undefined
};

// Lower case for text, unchanged otherwise: jinja2's case-insensitive comparison.
Value without_case(const Value& value);

}  // namespace hone::text::jinja
