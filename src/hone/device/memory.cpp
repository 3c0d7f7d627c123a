#include "hone/device/memory.h"

#include <sys/sysinfo.h>

#include <fstream>
#include <string>

namespace hone::device {
namespace {

int64_t status_bytes(const char* key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes;
  while (status >> word)
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  return 0;
}

}  // namespace

MemoryUse memory_use(at::Device device) {
  if (device.is_cpu()) {
    struct sysinfo machine {};
    ::sysinfo(&machine);
    return {status_bytes("VmRSS:"), status_bytes("VmHWM:"), static_cast<int64_t>(machine.totalram) * machine.mem_unit};
  }
  auto statistics = at::accelerator::getDeviceStats(device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto& bytes = statistics.allocated_bytes[kAll];
  return {bytes.current, bytes.peak, static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).second)};
}

void reset_peak_memory(at::Device device) {
  if (device.is_cpu()) {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  } else {
    at::accelerator::resetPeakStats(device.index());
  }
}

void empty_cache(at::Device device) {
  if (device.is_cpu())
    empty_cpu_cache();
  else
    at::accelerator::emptyCache();
}

}  // namespace hone::device
