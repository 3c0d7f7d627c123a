// JSON in and out of templates: variables from hone::Json, and tojson as Python's json.dumps writes.
#pragma once
#include <string>

#include "hone/base/json.h"
#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

Value from_json(const Json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);

}  // namespace hone::text::jinja
