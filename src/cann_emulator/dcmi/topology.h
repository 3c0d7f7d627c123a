// Topology of the emulated cards: which dies share a card, which links connect them, which cores are local.
#pragma once
#include <string>

namespace cann::dcmi {

int dies_per_card();                 // 2 on an A3, where every die is a device
const char* link(int a, int b);      // as npu-smi names it
std::string near_cores(int number);  // "0-1"
std::string chip_name();             // "910B3"; all A3 chips say "Ascend910"
std::string bus_id(int number);      // "0000:C1:00.0"

}  // namespace cann::dcmi
