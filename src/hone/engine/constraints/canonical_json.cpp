#include "hone/engine/constraints/canonical_json.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hone::engine {

std::string canonical(const Json& value) {
  if (value.is_number_float()) {
    auto number = value.get<double>();
    bool whole = number == std::floor(number) && std::abs(number) < 0x1p63;
    return whole ? std::to_string(static_cast<int64_t>(number)) : value.dump();
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items())
    items.push_back(value.is_object() ? Json(key).dump() + ":" + canonical(item) : canonical(item));
  if (value.is_object()) std::ranges::sort(items);
  return value.is_object() ? fmt::format("{{{}}}", fmt::join(items, ",")) : fmt::format("[{}]", fmt::join(items, ","));
}

}  // namespace hone::engine
