#include "hone/device/memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "hone/device/npu.h"
#include "hone/device/torch_release.h"

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

#if HONE_TORCH_2_11
c10::CachingAllocator::Stat allocated_bytes(at::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return at::accelerator::getDeviceStats(device.index()).allocated_bytes[kAll];
}
int64_t total_bytes(at::Device device) { return static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).second); }
MemoryUse accelerator_memory(at::Device device) {
  const auto bytes = allocated_bytes(device);
  return {bytes.current, bytes.peak, total_bytes(device)};
}
bool accelerator_has_room(double share, at::Device device) {
  static std::mutex mutex;
  static std::map<at::DeviceIndex, int64_t> totals;  // asking the driver takes long
  std::lock_guard lock(mutex);
  auto [found, is_new] = totals.try_emplace(device.index());
  if (is_new) found->second = total_bytes(device);
  return static_cast<double>(allocated_bytes(device).current) < share * static_cast<double>(found->second);
}
void reset_accelerator_peak(at::Device device) { at::accelerator::resetPeakStats(device.index()); }
void empty_accelerator_cache() { at::accelerator::emptyCache(); }
#else
// libtorch 2.7 does not ask the allocators of accelerators. An NPU itself reports what all of its processes use, and the peak is
// the greatest of these values.
std::mutex g_peaks_mutex;
std::map<at::DeviceIndex, int64_t> g_peaks;

MemoryUse accelerator_memory(at::Device device) {
  at::DeviceGuard guard(device);
  const auto [free, total] = npu::card_memory();
  std::lock_guard lock(g_peaks_mutex);
  auto& peak = g_peaks[device.index()];
  peak = std::max(peak, total - free);
  return {total - free, peak, total};
}
void reset_accelerator_peak(at::Device device) {
  std::lock_guard lock(g_peaks_mutex);
  g_peaks.erase(device.index());
}
void empty_accelerator_cache() {}  // nothing that every torch_npu has would do it
bool accelerator_has_room(double, at::Device) { return false; }
#endif

}  // namespace

MemoryUse memory_use(at::Device device) {
  if (device.is_cpu()) {
    struct sysinfo machine {};
    ::sysinfo(&machine);
    return {status_bytes("VmRSS:"), status_bytes("VmHWM:"), static_cast<int64_t>(machine.totalram) * machine.mem_unit};
  }
  return accelerator_memory(device);
}

bool tensors_take_less_than(double share, at::Device device) { return !device.is_cpu() && accelerator_has_room(share, device); }

void reset_peak_memory(at::Device device) {
  if (device.is_cpu()) {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  } else {
    reset_accelerator_peak(device);
  }
}

void empty_cache(at::Device device) {
  if (device.is_cpu())
    empty_cpu_cache();
  else
    empty_accelerator_cache();
}

}  // namespace hone::device
