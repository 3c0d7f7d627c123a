#include "hone/cli/parsing/check_emulator_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <regex>
#include <string>

#include "hone/base/error.h"

namespace hone::cli {
namespace {

// The chips that torch_npu supports.
constexpr std::array kChips{"910A",     "910ProA",  "910PremiumA", "910ProB", "910B",     "910B1",    "910B2",
                            "910B2C",   "910B3",    "910B4",       "910B4-1", "910_9391", "910_9392", "910_9381",
                            "910_9382", "910_9372", "910_9362",    "310P1",   "310P2",    "310P3",    "310P4",
                            "310P5",    "310P7",    "310B1",       "310B2",   "310B3",    "310B4"};

std::string emulation_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void fail_emulation(const char* name, const std::string& value, const std::string& expected) {
  throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", name, value), expected);
}

void check_count(const char* name, int64_t most, const char* unit) {
  auto text = emulation_variable(name);
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = status == std::errc() && end == text.data() + text.size();
  if (!text.empty() && (!whole || value < 1 || value > most)) fail_emulation(name, text, fmt::format("1 to {} {}", most, unit));
}

void check_chip() {
  auto text = emulation_variable("HONE_EMULATED_SOC");
  auto chip = text.starts_with("Ascend") ? text.substr(6) : text;
  if (!text.empty() && std::ranges::find(kChips, chip) == kChips.end())
    fail_emulation("HONE_EMULATED_SOC", text, fmt::format("one of {}", fmt::join(kChips, ", ")));
}

void check_faults() {
  static const std::regex kFaults(
      "(kernel|lost|hccl)@[1-9][0-9]*(:[A-Za-z0-9]+)?(/[0-9]+)?"
      "(,(kernel|lost|hccl)@[1-9][0-9]*(:[A-Za-z0-9]+)?(/[0-9]+)?)*");
  auto text = emulation_variable("HONE_EMULATED_FAULT");
  if (!text.empty() && !std::regex_match(text, kFaults))
    fail_emulation(
        "HONE_EMULATED_FAULT", text,
        "kernel@120, kernel@5:aclnnMatmul, lost@200 or hccl@3, with /1 behind it for rank 1 alone; several with commas");
}

}  // namespace

void check_emulated_machine() {
  check_count("HONE_EMULATED_NPUS", 32, "cards");  // torch_npu's maximum number of devices
  check_count("HONE_EMULATED_HBM", 1 << 20, "MiB");
  check_chip();
  check_faults();
}

}  // namespace hone::cli
