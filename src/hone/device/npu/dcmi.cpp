#include "hone/device/npu/dcmi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hone::device::npu {
namespace {

constexpr int kMostCards = 64, kMostChips = 8, kAicoreUse = 2, kCoreListRoom = 256;

void* open_dcmi() {
  for (const char* name : {"libdcmi.so", "/usr/local/dcmi/libdcmi.so"})
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class Function>
Function* dcmi_symbol(void* library, const char* name) {
  return library ? reinterpret_cast<Function*>(::dlsym(library, name)) : nullptr;
}

}  // namespace

// DCMI's C API, as far as it is used here. Every function returns 0 on success.
struct Dcmi::Functions {
  struct Hbm {
    unsigned long long total;  // MiB
    unsigned clock;
    unsigned long long used;  // MiB
    int celsius;
    unsigned bandwidth_percent;
  };
  struct Memory {
    unsigned long long total, available;  // MiB
    unsigned clock;
    unsigned long page_kib, pages, pages_free;
    unsigned percent;
    unsigned char reserved[60];
  };
  struct Chip {
    char type[32], name[32], version[32];
    unsigned cores;
  };
  void* library = open_dcmi();
  int (*init)() = dcmi_symbol<int()>(library, "dcmi_init");
  int (*cards)(int*, int*, int) = dcmi_symbol<int(int*, int*, int)>(library, "dcmi_get_card_num_list");
  int (*chips)(int, int*) = dcmi_symbol<int(int, int*)>(library, "dcmi_get_device_num_in_card");
  int (*logic)(int*, int, int) = dcmi_symbol<int(int*, int, int)>(library, "dcmi_get_device_logic_id");
  int (*chip)(int, int, Chip*) = dcmi_symbol<int(int, int, Chip*)>(library, "dcmi_get_device_chip_info");
  int (*hbm)(int, int, Hbm*) = dcmi_symbol<int(int, int, Hbm*)>(library, "dcmi_get_device_hbm_info");
  int (*memory)(int, int, Memory*) = dcmi_symbol<int(int, int, Memory*)>(library, "dcmi_get_device_memory_info_v3");
  int (*use)(int, int, int, unsigned*) = dcmi_symbol<int(int, int, int, unsigned*)>(library, "dcmi_get_device_utilization_rate");
  int (*power)(int, int, int*) = dcmi_symbol<int(int, int, int*)>(library, "dcmi_get_device_power_info");
  int (*celsius)(int, int, int*) = dcmi_symbol<int(int, int, int*)>(library, "dcmi_get_device_temperature");
  int (*health)(int, int, unsigned*) = dcmi_symbol<int(int, int, unsigned*)>(library, "dcmi_get_device_health");
  int (*topology)(int, int, int, int, int*) = dcmi_symbol<int(int, int, int, int, int*)>(library,
                                                                                         "dcmi_get_topo_info_by_device_id");
  int (*cores)(int, int, char*, int*) = dcmi_symbol<int(int, int, char*, int*)>(library,
                                                                                "dcmi_get_affinity_cpu_info_by_device_id");

  static const Functions& all() {
    static const Functions functions;
    return functions;
  }
};

const Dcmi* Dcmi::get() {
  static Dcmi dcmi;
  static const bool usable = dcmi.open();
  return usable ? &dcmi : nullptr;
}

bool Dcmi::open() {
  const auto& call = Functions::all();
  std::array<int, kMostCards> cards{};
  int count = 0;
  if (!call.init || !call.cards || !call.chips || call.init() != 0 || call.cards(&count, cards.data(), kMostCards) != 0)
    return false;
  for (int i = 0; i < std::min(count, kMostCards); ++i) {
    int card = cards[static_cast<size_t>(i)], chips = 0;
    if (call.chips(card, &chips) != 0) continue;
    for (int chip = 0; chip < std::min(chips, kMostChips); ++chip) {
      int logic = static_cast<int>(places_.size());
      if (call.logic && call.logic(&logic, card, chip) != 0) continue;  // a management chip, not a compute chip
      places_.push_back({card, chip, logic});
    }
  }
  std::ranges::sort(places_, {}, &ChipId::logic);
  return !places_.empty();
}

void Dcmi::read_memory(const ChipId& place, DeviceRecord& out) const {
  const auto& call = Functions::all();
  Functions::Hbm hbm{};
  if (call.hbm && call.hbm(place.card, place.chip, &hbm) == 0 && hbm.total > 0) {
    out.memory_total = static_cast<int64_t>(hbm.total) << 20, out.memory_used = static_cast<int64_t>(hbm.used) << 20;
    return;
  }
  Functions::Memory memory{};  // chips without HBM
  if (call.memory && call.memory(place.card, place.chip, &memory) == 0) {
    out.memory_total = static_cast<int64_t>(memory.total) << 20;
    out.memory_used = static_cast<int64_t>(memory.total - std::min(memory.total, memory.available)) << 20;
  }
}

DeviceRecord Dcmi::record(const ChipId& place) const {
  const auto& call = Functions::all();
  DeviceRecord out{.name = fmt::format("npu:{}", place.logic), .model = "Ascend"};
  if (Functions::Chip chip{}; call.chip && call.chip(place.card, place.chip, &chip) == 0) {
    std::string name(chip.name, ::strnlen(chip.name, sizeof chip.name));
    out.model = name.starts_with("Ascend") ? name : "Ascend " + name;
  }
  read_memory(place, out);
  unsigned number = 0;
  int reading = 0;
  if (call.use && call.use(place.card, place.chip, kAicoreUse, &number) == 0) out.utilization_percent = static_cast<int>(number);
  if (call.power && call.power(place.card, place.chip, &reading) == 0) out.watts = reading / 10;
  if (call.celsius && call.celsius(place.card, place.chip, &reading) == 0) out.celsius = reading;
  static constexpr std::array kStates{"", "warning", "alarm", "critical"};
  if (call.health && call.health(place.card, place.chip, &number) == 0 && number != 0)
    out.error = fmt::format("the driver says {}", number < kStates.size() ? kStates[number] : "unknown");
  return out;
}

std::vector<DeviceRecord> Dcmi::devices() const {
  std::vector<DeviceRecord> records;
  for (const auto& place : places_) records.push_back(record(place));
  return records;
}

std::string Dcmi::link(const ChipId& a, const ChipId& b) const {
  static constexpr std::array kNames{"X", "SYS", "PHB", "HCCS", "PXB", "PIX", "SIO", "HCCS_SW", "UB"};
  const auto& call = Functions::all();
  int kind = -1;
  if (a.logic == b.logic) return "X";
  if (!call.topology || call.topology(a.card, a.chip, b.card, b.chip, &kind) != 0) return "?";
  return kind > 0 && static_cast<size_t>(kind) < kNames.size() ? kNames[static_cast<size_t>(kind)] : "NA";
}

LinkMatrix Dcmi::links() const {
  const auto& call = Functions::all();
  LinkMatrix matrix;
  for (const auto& place : places_) {
    matrix.names.push_back(fmt::format("npu:{}", place.logic));
    auto& row = matrix.links.emplace_back();
    for (const auto& other : places_) row.push_back(link(place, other));
    std::array<char, kCoreListRoom> cores{};
    int length = kCoreListRoom - 1;
    bool known = call.cores && call.cores(place.card, place.chip, cores.data(), &length) == 0;
    matrix.cpus.emplace_back(known ? cores.data() : "");
  }
  return matrix;
}

}  // namespace hone::device::npu
