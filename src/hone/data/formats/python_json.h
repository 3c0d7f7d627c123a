// Json as Python's json.dumps(value, ensure_ascii=False) writes it: the text that models are trained on.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::data {

std::string dump_python_json(const Json& value);

}  // namespace hone::data
