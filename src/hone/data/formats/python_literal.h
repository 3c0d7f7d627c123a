// A value in text: JSON, or a Python literal ("[{'from': 'human', 'value': None}]") as in some CSV files.
#pragma once
#include <string_view>

#include "hone/base/json.h"

namespace hone::data {

Result<Json> parse_python_literal(std::string_view text);
// JSON first, then a Python literal.
Result<Json> parse_value_text(std::string_view text);

}  // namespace hone::data
