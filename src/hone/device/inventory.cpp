#include "hone/device/inventory.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "hone/base/strings/counted.h"
#include "hone/device/npu/cards.h"
#include "hone/device/nvml.h"

namespace hone::device {
namespace {

// ARM kernels identify a core by numbers only; these are common server cores.
std::string arm_core(const std::string& implementer, const std::string& part) {
  static constexpr std::array<std::array<const char*, 3>, 11> kCores{{{"0x41", "0xd0c", "Neoverse-N1"},
                                                                      {"0x41", "0xd40", "Neoverse-V1"},
                                                                      {"0x41", "0xd49", "Neoverse-N2"},
                                                                      {"0x41", "0xd4f", "Neoverse-V2"},
                                                                      {"0x41", "0xd8e", "Neoverse-N3"},
                                                                      {"0x41", "0xd84", "Neoverse-V3"},
                                                                      {"0x41", "0xd08", "Cortex-A72"},
                                                                      {"0x41", "0xd0b", "Cortex-A76"},
                                                                      {"0x48", "0xd01", "Kunpeng 920"},
                                                                      {"0x48", "0xd02", "Kunpeng 920B"},
                                                                      {"0xc0", "0xac3", "Ampere-1"}}};
  for (const auto& [maker, number, name] : kCores)
    if (implementer == maker && part == number) return name;
  return fmt::format("ARM core {}:{}", implementer, part);
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, model, implementer, part;
  int cores = 0;
  while (std::getline(file, line)) {
    auto colon = line.find(": ");
    auto value = colon == std::string::npos ? std::string() : line.substr(colon + 2);
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  if (model.empty()) model = implementer.empty() ? "CPU" : arm_core(implementer, part);
  return fmt::format("{}, {}", model, counted(cores, "core"));
}

int64_t memory_field(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  return 0;
}

struct CpuTime {
  int64_t busy = 0, total = 0;
};

CpuTime cpu_time() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  CpuTime time;
  int64_t ticks;
  for (int i = 0; i < 8 && file >> ticks; ++i) {
    time.total += ticks;
    bool idle = i == 3 || i == 4;  // idle, waiting for disks
    if (!idle) time.busy += ticks;
  }
  return time;
}

DeviceRecord cpu_record() {
  auto before = cpu_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto after = cpu_time();
  DeviceRecord out{.name = "cpu", .model = cpu_model()};
  out.memory_total = memory_field("MemTotal:");
  out.memory_used = out.memory_total - memory_field("MemAvailable:");
  if (after.total > before.total)
    out.utilization_percent = static_cast<int>(100 * (after.busy - before.busy) / (after.total - before.total));
  return out;
}

}  // namespace

std::vector<DeviceRecord> inventory() {
  std::vector<DeviceRecord> records{cpu_record()};
  if (const auto* nvml = Nvml::get())
    for (auto& record : nvml->devices()) records.push_back(std::move(record));
  for (auto& record : npu::cards()) records.push_back(std::move(record));
  return records;
}

LinkMatrix link_matrix() {
  const auto* nvml = Nvml::get();
  return nvml ? nvml->links() : npu::card_links();
}

std::string cuda_driver() {
  const auto* nvml = Nvml::get();
  return nvml ? nvml->driver() : std::string();
}

std::string core_list(const std::vector<int>& cores) {
  std::string out;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", cores[i]);
    if (last > i) out += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace hone::device
