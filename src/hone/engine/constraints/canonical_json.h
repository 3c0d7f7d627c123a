// JSON values as texts that are the same exactly for values that JSON Schema calls equal: 1 and 1.0, objects in another order.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::engine {

std::string canonical(const Json& value);

}  // namespace hone::engine
