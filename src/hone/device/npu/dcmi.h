// Ascend's management library (DCMI), opened at run time: it comes with the driver, and npu-smi uses it too.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/device/inventory.h"

namespace hone::device::npu {

class Dcmi {
 public:
  // Null if the library is absent or does not respond.
  static const Dcmi* get();

  // In the order of the logic numbers, which are those of ASCEND_RT_VISIBLE_DEVICES.
  std::vector<DeviceRecord> devices() const;
  LinkMatrix links() const;

 private:
  struct Functions;
  struct ChipId {
    int card, chip, logic;
  };
  Dcmi() = default;
  bool open();
  DeviceRecord record(const ChipId& place) const;
  void read_memory(const ChipId& place, DeviceRecord& out) const;
  std::string link(const ChipId& a, const ChipId& b) const;

  std::vector<ChipId> places_;
};

}  // namespace hone::device::npu
