#include "cann_emulator/dcmi/topology.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "cann_emulator/machine/settings.h"

namespace cann::dcmi {

int dies_per_card() { return settings().soc.starts_with("Ascend910_9") ? 2 : 1; }

const char* link(int a, int b) {
  if (a == b) return "X";
  if (settings().soc.starts_with("Ascend310P")) return "PHB";
  if (dies_per_card() == 1) return "HCCS";
  return a / 2 == b / 2 ? "SIO" : "HCCS_SW";
}

// Assigns the machine's cores to the cards in order, as on a multi-socket server; fewer cores than cards are local to all.
std::string near_cores(int number) {
  long cores = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)), cards = std::max(1, settings().cards);
  if (cores == 1) return "0";
  if (cores < cards) return "0-" + std::to_string(cores - 1);
  long share = cores / cards, first = number * share;
  return share == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(first + share - 1);
}

std::string chip_name() { return dies_per_card() == 2 ? "Ascend910" : settings().soc.substr(6); }

std::string bus_id(int number) {
  static constexpr std::array<const char*, 8> kBuses{"C1", "01", "C2", "02", "81", "41", "82", "42"};
  return std::string("0000:") + kBuses[static_cast<size_t>(number) % kBuses.size()] + ":0" + std::to_string(number / 8) + ".0";
}

}  // namespace cann::dcmi
