// One cell of an Arrow array as Json: text, numbers, booleans, lists, structs, maps, dictionaries.
#pragma once
#include <arrow/array.h>

#include "hone/base/json.h"

namespace hone::data {

Result<Json> arrow_value(const arrow::Array& array, int64_t row);

}  // namespace hone::data
