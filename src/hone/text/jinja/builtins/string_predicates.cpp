// The methods of Python's strings that test all characters: isdigit, isupper …
#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

template <bool (*predicate)(char32_t)>
Value all_characters(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound("str", arguments, {});
  interpreter.charge_bytes(self.text().size());
  for (size_t i = 0; i < self.text().size();)
    if (!predicate(next_code_point(self.text(), i))) return Value::boolean(false);
  return Value::boolean(!self.text().empty());
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_digit(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

template <bool upper>
Value is_cased_only(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound("str", arguments, {});
  return Value::boolean(upper ? is_upper_text(self.text()) : is_lower_text(self.text()));
}

Value isascii(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return self.text().empty() ? Value::boolean(true) : all_characters<is_ascii>(interpreter, self, arguments);
}

Value isprintable(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return self.text().empty() ? Value::boolean(true) : all_characters<is_printable>(interpreter, self, arguments);
}

Value istitle(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound("istitle", arguments, {});
  bool cased = to_upper(self.text()) != self.text() || to_lower(self.text()) != self.text();
  return Value::boolean(cased && title_case(self.text()) == self.text());
}

Value isidentifier(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound("isidentifier", arguments, {});
  std::u32string points = decode(self.text());
  bool valid = !points.empty() && (points[0] == '_' || is_alpha(points[0]));
  for (char32_t point : points) valid = valid && is_word(point);
  return Value::boolean(valid);
}

constexpr MethodEntry kStringPredicates[] = {
    {"isdigit", all_characters<is_digit>},
    {"isdecimal", all_characters<is_decimal>},
    {"isnumeric", all_characters<is_numeric>},
    {"isalpha", all_characters<is_alpha>},
    {"isalnum", all_characters<is_alphanumeric>},
    {"isspace", all_characters<is_space>},
    {"isascii", isascii},
    {"isprintable", isprintable},
    {"isupper", is_cased_only<true>},
    {"islower", is_cased_only<false>},
    {"istitle", istitle},
    {"isidentifier", isidentifier},
};

}  // namespace

Method find_string_predicate(std::string_view name) {
  for (const MethodEntry& entry : kStringPredicates)
    if (entry.name == name) return entry.method;
  return nullptr;
}

}  // namespace hone::text::jinja
