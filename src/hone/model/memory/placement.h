// The devices of the modules of a model.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::model {

struct Decoder;

// Devices by prefixes of parameter names, as in accelerate's device_map: "model.layers.3", "lm_head"; "" is everything else.
using DeviceMap = std::map<std::string, at::Device, std::less<>>;

// The longest matching prefix applies; none: `fallback`.
at::Device lookup_device(const DeviceMap& placement, std::string_view parameter, at::Device fallback);

// The device of each block; of tensor parallel shards, those of one shard after the other.
std::vector<at::Device> block_devices(const Decoder& decoder);
// All devices, each once, the input's first.
std::vector<at::Device> devices_of(const Decoder& decoder);

}  // namespace hone::model
