#include "hone/device/device_list.h"

#include <fmt/format.h>

#include "hone/device/device.h"

namespace hone::device {

std::vector<at::Device> select_devices(std::string_view name) {
  const auto first = select_device(name);
  if (first.is_cpu()) return {first};
  std::vector<at::Device> devices;
  const auto colon = name.find(':');
  if (colon == name.npos) {
    for (int i = 0; i < at::accelerator::deviceCount(); ++i) devices.emplace_back(first.type(), static_cast<at::DeviceIndex>(i));
    return devices;
  }
  for (auto list = name.substr(colon + 1); !list.empty();) {
    const auto comma = list.find(',');
    devices.push_back(select_device(fmt::format("{}{}", name.substr(0, colon + 1), list.substr(0, comma))));
    list = comma == list.npos ? "" : list.substr(comma + 1);
  }
  select_device(first.str());
  return devices;
}

}  // namespace hone::device
