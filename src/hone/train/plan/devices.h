// Devices for planning.
#pragma once
#include <optional>
#include <span>
#include <string_view>

namespace hone::train {

struct PlannedDevice {
  std::string_view name;       // "Ascend 910B3 64 GB": what people call it, then its memory
  double memory_gib = 0;       // as the vendor's tools report it
  double reserved_gib = 0;     // the driver's, the runtime's and the collectives' own
  double tflops = 0;           // dense bf16 (fp16) peak
  double memory_gb_per_s = 0;  // bandwidth of its memory
  double link_gb_per_s = 0;    // to the other devices of a node, as collectives measure it

  double usable_bytes() const { return (memory_gib - reserved_gib) * 1024 * 1024 * 1024; }
};

std::span<const PlannedDevice> planned_devices();
// "910B3", "a100-80gb", "Ascend 910B3": the first device whose name contains all parts. None if there is no such device.
std::optional<PlannedDevice> find_planned_device(std::string_view word);

}  // namespace hone::train
