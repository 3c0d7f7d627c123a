// Environment variables of CANN, HCCL and torch_npu. All reads and presets go through here; nothing else below the command line
// touches the environment.
#pragma once
#include <optional>
#include <string>

namespace hone::device::npu {

std::string variable(const char* name);        // "" where it is not set
std::optional<std::string> visible_devices();  // ASCEND_RT_VISIBLE_DEVICES
void preset(const char* name,
            const std::string& value);  // unless the user has set it; call it before loading the library that reads it
void unset(const char* name);

}  // namespace hone::device::npu
