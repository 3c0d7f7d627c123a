// All devices that a name resolves to, where one process computes on several.
#pragma once
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::device {

// "npu:0,2" those two, "npu" and "auto" every one available, "cpu" the CPU. The first becomes the current one. Throws as pick()
// does.
std::vector<at::Device> select_devices(std::string_view name = "auto");

}  // namespace hone::device
