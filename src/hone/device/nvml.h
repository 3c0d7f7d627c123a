// NVIDIA's management library, opened at run time: present on any machine with a driver, needed on none.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/device/inventory.h"

namespace hone::device {

class Nvml {
 public:
  // Null when the library or the driver is absent.
  static const Nvml* get();

  std::string driver() const;
  std::vector<DeviceRecord> devices() const;
  LinkMatrix links() const;

 private:
  Nvml() = default;
  bool open();
  DeviceRecord record(unsigned index) const;
  std::string link(void* a, void* b) const;

  struct Functions;
  std::vector<void*> handles_;
};

}  // namespace hone::device
