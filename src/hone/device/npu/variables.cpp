#include "hone/device/npu/variables.h"

#include <cstdlib>

namespace hone::device::npu {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<std::string> visible_devices() {
  const char* list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  return list ? std::optional<std::string>(list) : std::nullopt;
}

void preset(const char* name, const std::string& value) { ::setenv(name, value.c_str(), /*overwrite=*/0); }
void unset(const char* name) { ::unsetenv(name); }

}  // namespace hone::device::npu
