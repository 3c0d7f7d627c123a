#include "hone/device/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace hone::device {
namespace {

constexpr int kUncorrected = 1, kSinceBoot = 0, kDieTemperature = 0, kOverNvlink = 2;
constexpr unsigned kMaxLinks = 18;
constexpr unsigned long long kSlowedByHeat = 0x20 | 0x40;

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

// NVML's C API, as far as it is used here. Every function returns 0 on success.
struct Nvml::Functions {
  using Handle = void*;
  struct Memory {
    unsigned long long total, free, used;
  };
  struct Utilization {
    unsigned gpu, memory;
  };
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*init)() = symbol<int()>(library, "nvmlInit_v2");
  int (*count)(unsigned*) = symbol<int(unsigned*)>(library, "nvmlDeviceGetCount_v2");
  int (*handle)(unsigned, Handle*) = symbol<int(unsigned, Handle*)>(library, "nvmlDeviceGetHandleByIndex_v2");
  int (*name)(Handle, char*, unsigned) = symbol<int(Handle, char*, unsigned)>(library, "nvmlDeviceGetName");
  int (*memory)(Handle, Memory*) = symbol<int(Handle, Memory*)>(library, "nvmlDeviceGetMemoryInfo");
  int (*utilization)(Handle, Utilization*) = symbol<int(Handle, Utilization*)>(library, "nvmlDeviceGetUtilizationRates");
  int (*temperature)(Handle, int, unsigned*) = symbol<int(Handle, int, unsigned*)>(library, "nvmlDeviceGetTemperature");
  int (*power)(Handle, unsigned*) = symbol<int(Handle, unsigned*)>(library, "nvmlDeviceGetPowerUsage");
  int (*ecc_errors)(Handle, int, int,
                    unsigned long long*) = symbol<int(Handle, int, int, unsigned long long*)>(library,
                                                                                              "nvmlDeviceGetTotalEccErrors");
  int (*slowdown)(Handle,
                  unsigned long long*) = symbol<int(Handle, unsigned long long*)>(library,
                                                                                  "nvmlDeviceGetCurrentClocksThrottleReasons");
  int (*ancestor)(Handle, Handle, int*) = symbol<int(Handle, Handle, int*)>(library, "nvmlDeviceGetTopologyCommonAncestor");
  int (*peer)(Handle, Handle, int, int*) = symbol<int(Handle, Handle, int, int*)>(library, "nvmlDeviceGetP2PStatus");
  int (*link_state)(Handle, unsigned, int*) = symbol<int(Handle, unsigned, int*)>(library, "nvmlDeviceGetNvLinkState");
  int (*affinity)(Handle, unsigned, unsigned long*) = symbol<int(Handle, unsigned, unsigned long*)>(library,
                                                                                                    "nvmlDeviceGetCpuAffinity");
  int (*driver)(char*, unsigned) = symbol<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
  int (*cuda)(int*) = symbol<int(int*)>(library, "nvmlSystemGetCudaDriverVersion_v2");

  static const Functions& all() {
    static const Functions functions;
    return functions;
  }
};

const Nvml* Nvml::get() {
  static Nvml nvml;
  static const bool usable = nvml.open();
  return usable ? &nvml : nullptr;
}

bool Nvml::open() {
  const auto& call = Functions::all();
  unsigned count = 0;
  if (!call.library || !call.init || !call.count || !call.handle || call.init() != 0 || call.count(&count) != 0) return false;
  for (unsigned i = 0; i < count; ++i) {
    Functions::Handle handle = nullptr;
    if (call.handle(i, &handle) == 0) handles_.push_back(handle);
  }
  return true;
}

std::string Nvml::driver() const {
  const auto& call = Functions::all();
  char version[96] = "unknown";
  int cuda = 0;
  if (call.driver) call.driver(version, sizeof version);
  if (call.cuda) call.cuda(&cuda);
  return fmt::format("{} (CUDA {}.{})", version, cuda / 1000, cuda % 1000 / 10);
}

std::vector<DeviceRecord> Nvml::devices() const {
  std::vector<DeviceRecord> records;
  for (unsigned i = 0; i < handles_.size(); ++i) records.push_back(record(i));
  return records;
}

DeviceRecord Nvml::record(unsigned index) const {
  const auto& call = Functions::all();
  Functions::Handle handle = handles_[index];
  DeviceRecord out{.name = fmt::format("cuda:{}", index)};
  char name[96] = "NVIDIA device";
  if (call.name) call.name(handle, name, sizeof name);
  out.model = name;
  if (Functions::Memory memory{}; call.memory && call.memory(handle, &memory) == 0)
    out.memory_total = static_cast<int64_t>(memory.total), out.memory_used = static_cast<int64_t>(memory.used);
  if (Functions::Utilization use{}; call.utilization && call.utilization(handle, &use) == 0)
    out.utilization_percent = static_cast<int>(use.gpu);
  unsigned number = 0;
  if (call.temperature && call.temperature(handle, kDieTemperature, &number) == 0) out.celsius = static_cast<int>(number);
  if (call.power && call.power(handle, &number) == 0) out.watts = static_cast<int>(number / 1000);
  unsigned long long bits = 0;
  if (call.slowdown && call.slowdown(handle, &bits) == 0 && (bits & kSlowedByHeat)) out.error = "slowed down by heat";
  if (call.ecc_errors && call.ecc_errors(handle, kUncorrected, kSinceBoot, &bits) == 0 && bits > 0)
    out.error = fmt::format("{} uncorrected memory errors since boot", bits);
  return out;
}

std::string Nvml::link(void* a, void* b) const {
  const auto& call = Functions::all();
  int status = 1;
  if (call.peer && call.link_state && call.peer(a, b, kOverNvlink, &status) == 0 && status == 0) {
    int active_links = 0;
    for (unsigned i = 0; i < kMaxLinks; ++i) {
      int active = 0;
      if (call.link_state(a, i, &active) == 0 && active) ++active_links;
    }
    return fmt::format("NV{}", active_links);
  }
  int level = -1;
  if (!call.ancestor || call.ancestor(a, b, &level) != 0) return "?";
  static constexpr std::array kNames{"PIX", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return level >= 0 && level <= 50 ? kNames[static_cast<size_t>(level / 10)] : "?";
}

LinkMatrix Nvml::links() const {
  const auto& call = Functions::all();
  LinkMatrix matrix;
  for (size_t i = 0; i < handles_.size(); ++i) {
    matrix.names.push_back(fmt::format("cuda:{}", i));
    auto& row = matrix.links.emplace_back();
    for (size_t j = 0; j < handles_.size(); ++j) row.push_back(i == j ? "X" : link(handles_[i], handles_[j]));
    std::array<unsigned long, 64> bits{};
    std::vector<int> cores;
    if (call.affinity && call.affinity(handles_[i], bits.size(), bits.data()) == 0)
      for (size_t core = 0; core < bits.size() * 64; ++core)
        if (bits[core / 64] >> (core % 64) & 1) cores.push_back(static_cast<int>(core));
    matrix.cpus.push_back(core_list(cores));
  }
  return matrix;
}

}  // namespace hone::device
