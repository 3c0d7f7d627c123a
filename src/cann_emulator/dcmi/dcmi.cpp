// DCMI functions that torch_npu and monitoring tools call: cards, memory, health, NUMA-local cores.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "cann_emulator/dcmi/topology.h"
#include "cann_emulator/machine/cards.h"
#include "cann_emulator/machine/settings.h"

#define DCMI_EXPORT extern "C" __attribute__((visibility("default")))

using namespace cann;

namespace {

constexpr int kInvalidParameter = -8001, kNotSupported = -8255;

struct HbmInfo {
  unsigned long long size;  // MiB
  unsigned int frequency;
  unsigned long long used;  // MiB
  int temperature;
  unsigned int bandwidth_rate;
};

struct MemoryInfo {
  unsigned long long size, available;  // MiB
  unsigned int frequency;
  unsigned long page_size, pages, free_pages;
  unsigned int used_percent;
  unsigned char reserved[60];
};

struct ChipInfo {
  unsigned char type[32], name[32], version[32];
  unsigned int cores;
};

int number_of(int card, int device) {
  int number = card * dcmi::dies_per_card() + device;
  return device >= 0 && device < dcmi::dies_per_card() && number >= 0 && number < settings().cards ? number : -1;
}

}  // namespace

DCMI_EXPORT int dcmi_init() { return 0; }

DCMI_EXPORT int dcmi_get_card_num_list(int* count, int* list, int room) {
  *count = settings().cards / dcmi::dies_per_card();
  for (int i = 0; i < *count && i < room; ++i) list[i] = i;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_num_in_card(int, int* count) {
  *count = dcmi::dies_per_card();
  return 0;
}
DCMI_EXPORT int dcmi_get_device_id_in_card(int, int* devices, int* mcu, int* cpu) {
  *devices = dcmi::dies_per_card(), *mcu = *devices, *cpu = -1;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_logic_id(int* logic, int card, int device) {
  *logic = number_of(card, device);
  return *logic < 0 ? kInvalidParameter : 0;
}
DCMI_EXPORT int dcmi_get_device_health(int card, int device, unsigned int* health) {
  if (number_of(card, device) < 0) return kInvalidParameter;
  *health = 0;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_hbm_info(int card, int device, HbmInfo* info) {
  int number = number_of(card, device);
  if (number < 0) return kInvalidParameter;
  if (settings().soc.starts_with("Ascend310P")) return kNotSupported;  // chips without HBM
  *info = {static_cast<unsigned long long>(settings().memory >> 20), 1600,
           static_cast<unsigned long long>(cards::used(number) >> 20), 45, 0};
  return 0;
}
DCMI_EXPORT int dcmi_get_device_memory_info_v3(int card, int device, MemoryInfo* info) {
  int number = number_of(card, device);
  if (number < 0) return kInvalidParameter;
  *info = {};
  info->size = static_cast<unsigned long long>(settings().memory >> 20);
  info->available = info->size - static_cast<unsigned long long>(cards::used(number) >> 20);
  return 0;
}
DCMI_EXPORT int dcmi_get_topo_info_by_device_id(int card, int device, int other_card, int other_device, int* kind) {
  int a = number_of(card, device), b = number_of(other_card, other_device);
  if (a < 0 || b < 0) return kInvalidParameter;
  static constexpr const char* kNames[] = {"X", "SYS", "PHB", "HCCS", "PXB", "PIX", "SIO", "HCCS_SW"};
  for (*kind = 0; std::strcmp(kNames[*kind], dcmi::link(a, b)) != 0;) ++*kind;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_chip_info(int card, int device, ChipInfo* info) {
  if (number_of(card, device) < 0) return kInvalidParameter;
  *info = {};
  std::strcpy(reinterpret_cast<char*>(info->type), "Ascend");
  std::strncpy(reinterpret_cast<char*>(info->name), dcmi::chip_name().c_str(), sizeof info->name - 1);
  info->cores = 20;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_utilization_rate(int card, int device, int, unsigned int* percent) {
  if (number_of(card, device) < 0) return kInvalidParameter;
  *percent = 0;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_power_info(int card, int device, int* tenths) {
  if (number_of(card, device) < 0) return kInvalidParameter;
  *tenths = 904;
  return 0;
}
DCMI_EXPORT int dcmi_get_device_temperature(int card, int device, int* celsius) {
  if (number_of(card, device) < 0) return kInvalidParameter;
  *celsius = 38;
  return 0;
}
DCMI_EXPORT int dcmi_get_affinity_cpu_info_by_device_id(int card, int device, char* text, int* length) {
  int number = number_of(card, device);
  if (number < 0) return kInvalidParameter;
  auto cores = dcmi::near_cores(number);
  std::strcpy(text, cores.c_str());
  *length = static_cast<int>(cores.size());
  return 0;
}
