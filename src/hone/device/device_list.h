// All devices that a name refers to, for processes that use several.
#pragma once
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::device {

// "npu:0,2" is those two, "npu" and "auto" every available one, "cpu" the CPU. The first becomes the current one. Throws as
// select_device() does.
std::vector<at::Device> select_devices(std::string_view name = "auto");

}  // namespace hone::device
