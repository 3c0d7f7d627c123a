#include "hone/model/memory/placement.h"

namespace hone::model {

at::Device lookup_device(const DeviceMap& placement, std::string_view parameter, at::Device fallback) {
  for (auto beginning = parameter; !beginning.empty();) {
    if (auto found = placement.find(beginning); found != placement.end()) return found->second;
    auto dot = beginning.rfind('.');
    beginning = beginning.substr(0, dot == beginning.npos ? 0 : dot);
  }
  auto rest = placement.find("");
  return rest == placement.end() ? fallback : rest->second;
}

}  // namespace hone::model
