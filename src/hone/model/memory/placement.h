// The device of each module of a model on several devices.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "hone/device/tensor.h"

namespace hone::model {

// Devices by prefixes of parameter names, as in accelerate's device_map: "model.layers.3", "lm_head"; "" is everything else.
using DeviceMap = std::map<std::string, at::Device, std::less<>>;

// The longest matching prefix applies; none: `fallback`.
at::Device lookup_device(const DeviceMap& placement, std::string_view parameter, at::Device fallback);

}  // namespace hone::model
