#include "hone/cli/commands/plan_device.h"

#include <algorithm>

#include "hone/cli/arguments/tools.h"
#include "hone/cli/page.h"
#include "hone/device/inventory.h"

namespace hone::cli {
namespace {

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

std::string known_devices() {
  std::string names;
  for (const auto& device : train::planned_devices()) names += (names.empty() ? "" : ", ") + std::string(device.name);
  return names;
}

// The first accelerator of the system, with the figures of the device table if it is listed.
std::optional<TargetDevice> device_here() {
  for (const auto& record : device::inventory()) {
    if (record.name == "cpu") continue;
    auto known = train::find_planned_device(record.model);
    size_t longest = 0;  // "H200" must not match "H20"
    for (const auto& each : train::planned_devices()) {
      auto word = each.name.substr(0, each.name.find(' '));
      if (known && longest == 0) break;
      if (word.size() > longest && record.model.find(word) != std::string::npos) known = each, longest = word.size();
    }
    TargetDevice found{known.value_or(train::planned_devices().front()), record.model, false};
    if (record.memory_total > 0) found.device.memory_gib = static_cast<double>(record.memory_total) / kGibibyte;
    return found;
  }
  return std::nullopt;
}

TargetDevice cpu_here() {
  auto records = device::inventory();
  auto cpu = std::ranges::find(records, "cpu", &device::DeviceRecord::name);
  TargetDevice found{{.name = "CPU", .tflops = 0.1, .memory_gb_per_s = 30, .link_gb_per_s = 10}, "this machine's CPU", false};
  if (cpu != records.end()) found.device.memory_gib = static_cast<double>(cpu->memory_total) / kGibibyte;
  return found;
}

}  // namespace

TargetDevice target_device(const Options& options, bool on_cpu) {
  const ToolArguments args(options);
  if (args.target_device.has_value()) {
    auto word = *args.target_device;
    if (auto known = train::find_planned_device(word)) return {*known, std::string(known->name), false};
    throw UserError(ExitCode::usage, fmt::format("{} {} is not a known device", args.target_device.flag(), word),
                    "expected one of " + known_devices());
  }
  if (on_cpu) return cpu_here();
  if (auto here = device_here()) return *here;
  const auto& first = train::planned_devices().front();
  return {first, std::string(first.name), true};
}

size_t plan_width() { return terminal::has_width(1) ? page_width() : 1000; }

void print_note(const std::string& text, terminal::Style style) {
  constexpr size_t kIndent = 2;
  fmt::print("{:{}}{}\n", "", kIndent, terminal::styled(wrap(text, plan_width() - kIndent, kIndent), style));
}

std::string gib(double bytes) {
  const double value = bytes / kGibibyte;
  return fmt::format("{:.{}f}", value, value > 0 && value < 0.05 ? 3 : 1);
}

std::string seconds_text(double seconds) {
  if (seconds < 0.01) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.2f} s", seconds);
  return fmt::format("{:.1f} min", seconds / 60);
}

std::string fit_line(bool fits, int devices, const TargetDevice& target, double needed_bytes) {
  using terminal::Style, terminal::styled;
  auto what = styled(styled(fits ? "fits on" : "does not fit on", fits ? Style::green : Style::red), Style::bold);
  return fmt::format("{} {} x {}{}: {} of {:.4g} GiB", what, devices, target.name,
                     target.assumed ? " (assumed: no accelerator here)" : "", gib(needed_bytes), target.device.memory_gib);
}

}  // namespace hone::cli
