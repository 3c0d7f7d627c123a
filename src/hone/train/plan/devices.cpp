#include "hone/train/plan/devices.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace hone::train {
namespace {

// Vendor figures; bandwidths of the Ascend links are those measured for collectives of a full node.
constexpr PlannedDevice kDevices[] = {
    {"Ascend 910B3 64 GB", 64, 2.5, 313, 1600, 100},  {"Ascend 910B4 32 GB", 32, 2.5, 280, 800, 100},
    {"Ascend 910B2 64 GB", 64, 2.5, 376, 1600, 100},  {"Ascend 910B1 64 GB", 64, 2.5, 354, 1600, 100},
    {"Ascend 910_93 64 GB", 64, 2.5, 376, 1600, 190}, {"RTX 4090 24 GB", 24, 0.8, 165, 1008, 20},
    {"RTX 5090 32 GB", 32, 0.8, 209, 1792, 40},       {"A100 80 GB", 80, 1.0, 312, 2039, 230},
    {"A100 40 GB", 40, 1.0, 312, 1555, 230},          {"H100 80 GB", 80, 1.2, 989, 3350, 360},
    {"H20 96 GB", 96, 1.2, 148, 4000, 360},           {"H200 141 GB", 140, 1.2, 989, 4800, 360},
};

std::string plain(std::string_view text) {
  std::string out;
  for (unsigned char c : text)
    if (std::isalnum(c)) out += static_cast<char>(std::tolower(c));
  return out;
}

}  // namespace

std::span<const PlannedDevice> planned_devices() { return kDevices; }

std::optional<PlannedDevice> find_planned_device(std::string_view word) {
  const auto wanted = plain(word);
  if (wanted.empty()) return std::nullopt;
  auto known = std::ranges::find_if(
      kDevices, [&](const PlannedDevice& device) { return plain(device.name).find(wanted) != std::string::npos; });
  return known == std::end(kDevices) ? std::nullopt : std::optional(*known);
}

}  // namespace hone::train
