// Devices that a run may be planned for.
#pragma once
#include <span>
#include <string_view>

namespace hone::train {

struct PlannedDevice {
  std::string_view name;
  double memory_gib;   // as the vendor's tools report it
  double reserved_gib;  // the driver's, the runtime's and the collectives' own
};

std::span<const PlannedDevice> planned_devices();

}  // namespace hone::train
