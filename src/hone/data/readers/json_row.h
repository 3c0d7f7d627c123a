// One JSON text to one Json object through simdjson: strict UTF-8, bounded depth, no duplicate keys.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/data/row.h"

namespace hone::data {

// `text` must be followed by kPadding readable bytes. Errors are made by row_error.
Result<Json> parse_json_row(std::string_view padded_text, const RowOrigin& origin);

}  // namespace hone::data
