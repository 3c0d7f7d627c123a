// Attributes and methods of Python's str, list and dict in templates.
#pragma once
#include <string_view>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);

// Null when the type has no such method.
Method find_string_method(std::string_view name);
Method find_string_predicate(std::string_view name);  // those of str that test characters; find_string_method() includes them
Method find_list_method(std::string_view name);
Method find_dict_method(std::string_view name);

// A row of a type's table.
struct MethodEntry {
  std::string_view name;
  Method method;
};

// Methods that change their object: the sandbox returns an unsafe undefined instead.
bool is_mutating_method(const Value& object, std::string_view name);

// The method `name` of `object` for a direct call, or null: lets `x.strip()` skip creating a bound method.
Method find_method(const Value& object, std::string_view name);

}  // namespace hone::text::jinja
