#include "hone/text/jinja/attribute_path.h"

#include <algorithm>
#include <charconv>

#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

AttributePath::AttributePath(const Value& attribute, Value fallback) : fallback_(std::move(fallback)) {
  if (attribute.is(Kind::none)) return;
  if (!attribute.is(Kind::string)) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.text();
  while (true) {
    size_t dot = rest.find('.');
    std::string_view part = rest.substr(0, dot);
    int64_t number = 0;
    bool digits = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits && std::from_chars(part.data(), part.data() + part.size(), number).ec == std::errc()) {
      parts_.push_back(Value::integer(number));
    } else {
      parts_.push_back(Value::string(std::string(part)));
    }
    if (dot == std::string_view::npos) return;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::follow(Interpreter& interpreter, Value value) const {
  for (const Value& part : parts_) {
    value = interpreter.get_item(value, part);
    if (value.is(Kind::undefined) && !fallback_.is(Kind::none)) value = fallback_;
  }
  return value;
}

Value without_case(const Value& value) { return value.is(Kind::string) ? Value::string(to_lower(value.text())) : value; }

}  // namespace hone::text::jinja
