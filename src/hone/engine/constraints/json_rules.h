// Building blocks of schemas: strings and numbers as JSON writes them. Internal to this folder.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hone/base/json.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

struct UnsupportedSchema {
  std::string message;
};
// Parts of a schema that no value satisfies together.
struct SchemaContradiction : UnsupportedSchema {};

Pattern pattern_of(std::string_view expression);  // a regular expression of our own, which is right

Pattern json_string(const Json& schema);  // by pattern, format, minLength and maxLength; throws UnsupportedSchema
Pattern json_any_string();
Pattern json_integer(const Json& schema);  // by minimum, maximum, exclusiveMinimum, exclusiveMaximum
Pattern json_number(const Json& schema);

// The content of strings of a format that JSON Schema defines; none for other formats, which are annotations. Throws
// UnsupportedSchema for formats of JSON Schema that are not supported.
std::optional<Pattern> json_format(const std::string& format);

// A bound that counts characters or items; throws UnsupportedSchema when it is not such a number.
int size_bound(const Json& schema, const char* name, int otherwise);

}  // namespace hone::engine
