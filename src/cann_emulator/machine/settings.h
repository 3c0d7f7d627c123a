// The emulated machine: number of cards, chip, memory. Read once from the environment.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cann {

struct Settings {
  int cards = 8;                    // HONE_EMULATED_NPUS: on the machine
  std::vector<int> visible;         // ASCEND_RT_VISIBLE_DEVICES: those this process may use, as card numbers
  std::string soc = "Ascend910B3";  // HONE_EMULATED_SOC
  int64_t memory = 64LL << 30;      // HONE_EMULATED_HBM, in MiB: per card
  std::string cann = "9.1.0";       // HONE_EMULATED_CANN
  std::string state;                // HONE_EMULATED_STATE: file through which processes share the cards
  std::string report;               // HONE_EMULATED_REPORT: file that each process adds its report to
  std::string fault;                // HONE_EMULATED_FAULT: see fault_injection.h
  std::string trouble;              // what is wrong with ASCEND_RT_VISIBLE_DEVICES; empty if nothing

  bool has_bfloat16() const { return second_generation(); }
  bool has_inf_nan() const { return second_generation(); }
  bool second_generation() const;  // A2, A3: 910B1 and newer
};

const Settings& settings();

// A card list as CANN parses it: ascending, no duplicates, up to the first character that does not belong to a number list.
std::vector<int> parse_visible(const std::string& text, int cards, std::string& trouble);

}  // namespace cann
