// The device of each module, where a model is on several devices.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "hone/device/tensor.h"

namespace hone::model {

// Devices by the beginnings of parameter names, as accelerate's device_map has them: "model.layers.3", "lm_head"; "" is all the
// rest.
using DeviceMap = std::map<std::string, at::Device, std::less<>>;

// The longest beginning that fits decides; none: `fallback`.
at::Device lookup_device(const DeviceMap& placement, std::string_view parameter, at::Device fallback);

}  // namespace hone::model
