// npu-smi of the emulated machine, in the layouts that the tool prints for A2, A3 and 310P cards.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "cann_emulator/dcmi/topology.h"
#include "cann_emulator/machine/cards.h"
#include "cann_emulator/machine/settings.h"

using namespace cann;

namespace {

constexpr const char* kVersion = "25.5.0";
constexpr const char* kDouble =
    "+===========================+===============+====================================================+";
constexpr const char* kSingle =
    "+---------------------------+---------------+----------------------------------------------------+";
constexpr const char* kPlain =
    "+------------------------------------------------------------------------------------------------+";

bool two_dies() { return dcmi::dies_per_card() == 2; }
bool ddr_only() { return settings().soc.starts_with("Ascend310P"); }

std::string usage(int64_t used, int64_t total) {
  char text[64];
  std::snprintf(text, sizeof text, "%-5lld/ %-5lld", static_cast<long long>(used), static_cast<long long>(total));
  return text;
}

void print_head() {
  std::printf("%s\n| npu-smi %-24s Version: %-53s|\n%s\n", kPlain, kVersion, kVersion, kSingle);
  std::printf("| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n");
  if (ddr_only())
    std::printf("| Chip  Device              | Bus-Id        | AICore(%%)   Memory-Usage(MB)                        |\n");
  else if (two_dies())
    std::printf("| Chip  Phy-ID              | Bus-Id        | AICore(%%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n");
  else
    std::printf("| Chip                      | Bus-Id        | AICore(%%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n");
  std::printf("%s\n", kDouble);
}

void print_device(int number) {
  int npu = number / dcmi::dies_per_card(), chip = number % dcmi::dies_per_card();
  int64_t total = settings().memory >> 20, used = cards::used(number) >> 20;
  const char* power = two_dies() && chip ? "-" : "90.4";
  std::printf("| %-5d %-19s | OK            | %-11s 38                %-21s|\n", npu, dcmi::chip_name().c_str(), power,
              "0    / 0");
  auto first = two_dies() || ddr_only() ? std::to_string(chip) + "     " + std::to_string(number) : std::to_string(chip);
  auto memory = ddr_only() ? usage(used, total) : "0    / 0";
  std::printf("| %-25s | %-13s | 0           %-18s%-21s|\n", first.c_str(), dcmi::bus_id(number).c_str(), memory.c_str(),
              ddr_only() ? "" : usage(used, total).c_str());
  bool last_die = chip + 1 == dcmi::dies_per_card();
  std::printf("%s\n", last_die ? kDouble : kPlain);
}

std::string process_name(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

void print_processes() {
  std::printf("%s\n| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n%s\n",
              kSingle, kDouble);
  for (int number = 0; number < settings().cards; ++number) {
    int npu = number / dcmi::dies_per_card(), chip = number % dcmi::dies_per_card();
    auto processes = cards::processes(number);
    for (const auto& process : processes)
      std::printf("| %-7d %-17d | %-13d | %-24s | %-23lld |\n", npu, chip, process.pid, process_name(process.pid).c_str(),
                  static_cast<long long>(process.bytes >> 20));
    if (processes.empty()) std::printf("| No running processes found in NPU %-61d|\n", npu);
    std::printf("%s\n", kDouble);
  }
}

void print_table() {
  print_head();
  for (int i = 0; i < settings().cards; ++i) print_device(i);
  print_processes();
}

void print_topology() {
  auto name = [](int i) { return (two_dies() ? "Phy-ID" : "NPU") + std::to_string(i); };
  std::printf("%-11s", "");
  for (int i = 0; i < settings().cards; ++i) std::printf("%-11s", name(i).c_str());
  std::printf("CPU Affinity\n");
  for (int i = 0; i < settings().cards; ++i) {
    std::printf("%-11s", name(i).c_str());
    for (int j = 0; j < settings().cards; ++j) std::printf("%-11s", dcmi::link(i, j));
    std::printf("%s\n", dcmi::near_cores(i).c_str());
  }
  std::printf(
      "\nLegend:\n\n  X    = Self\n  SYS  = Path traversing PCIe and NUMA nodes. Nodes are connected through SMP, such as QPI, "
      "UPI.\n"
      "  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.\n  PIX  = Path traversing a single PCIe switch\n"
      "  PXB  = Path traversing multiple PCIe switches\n  HCCS = Connection traversing HCCS.\n  SIO  = Path between two dies of "
      "one card.\n"
      "  HCCS_SW = Connection traversing HCCS switches.\n  NA   = Unknown relationship.\n");
}

void print_mapping() {
  std::printf(two_dies() ? "\tNPU ID\t\t\tChip ID\t\t\tChip Logic ID\t\tChip Phy-ID\t\tChip Name\n"
                         : "\tNPU ID\t\t\tChip ID\t\t\tChip Logic ID\t\tChip Name\n");
  for (int i = 0; i < settings().cards; ++i) {
    std::printf("\t%d\t\t\t%d\t\t\t%d\t\t\t", i / dcmi::dies_per_card(), i % dcmi::dies_per_card(), i);
    if (two_dies()) std::printf("%d\t\t\t", i);
    std::printf("Ascend %s\n", dcmi::chip_name().c_str());
  }
}

void print_list() {
  std::printf("\tTotal Count                    : %d\n\n", settings().cards / dcmi::dies_per_card());
  for (int i = 0; i < settings().cards / dcmi::dies_per_card(); ++i)
    std::printf("\tNPU ID                         : %d\n\tChip Count                     : %d\n\n", i, dcmi::dies_per_card());
}

}  // namespace

int main(int count, char** words) {
  auto has = [&](const char* word) {
    for (int i = 1; i < count; ++i)
      if (!std::strcmp(words[i], word)) return true;
    return false;
  };
  if (has("-v") || has("--version")) return std::printf("npu-smi version: %s\n", kVersion), 0;
  if (!has("info")) return std::fprintf(stderr, "Usage: npu-smi info [-l | -m | -t topo]\n"), 1;
  if (has("topo"))
    print_topology();
  else if (has("-m"))
    print_mapping();
  else if (has("-l"))
    print_list();
  else if (has("-t"))
    return std::fprintf(stderr, "the emulated npu-smi knows -t topo alone\n"), 1;
  else
    print_table();
  return 0;
}
