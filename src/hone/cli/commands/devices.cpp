// Prints the machine's devices as a table, the links between them, or both as JSON.
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/text_table.h"
#include "hone/device/inventory.h"

namespace hone::cli {
namespace {

using device::DeviceRecord;
using terminal::Style;
using terminal::styled;

std::string memory_bar(const DeviceRecord& device, int cells) {
  double part = device.memory_total ? static_cast<double>(device.memory_used) / static_cast<double>(device.memory_total) : 0;
  int full = static_cast<int>(part * cells + 0.5);
  std::string bar;
  for (int i = 0; i < cells; ++i) bar += i < full ? "█" : "░";
  return styled(bar, part > 0.9 ? Style::red : part > 0.7 ? Style::yellow : Style::green);
}

std::string with_unit(const std::optional<int>& value, const char* unit) {
  return value ? fmt::format("{}{}", *value, unit) : "–";
}

void print_table(const std::vector<DeviceRecord>& devices) {
  const bool narrow = terminal::columns() < 110;  // one line per device at 80 columns: no bar, short names
  std::vector<std::string> titles{"device", "model", "used", "busy", "temp", "power", "health"};
  if (!narrow) titles.insert(titles.begin() + 2, "memory");
  TextTable table(titles);
  for (const auto& d : devices) {
    std::vector<std::string> row{styled(d.name, Style::cyan), narrow ? terminal::truncate(d.model, 14) : d.model};
    if (!narrow) row.push_back(memory_bar(d, 10));
    row.push_back(fmt::format("{} of {}", format_bytes(static_cast<double>(d.memory_used)),
                              format_bytes(static_cast<double>(d.memory_total))));
    row.push_back(with_unit(d.utilization_percent, " %"));
    row.push_back(with_unit(d.celsius, " °C"));
    row.push_back(with_unit(d.watts, " W"));
    row.push_back(d.error.empty() ? styled("✓ well", Style::green) : styled("✗ " + d.error, Style::red));
    table.add(row);
  }
  fmt::print("{}", table.str(static_cast<size_t>(terminal::columns())));
}

void print_links(const device::LinkMatrix& matrix) {
  if (matrix.names.empty()) {
    fmt::print("no accelerators, so there are no links to show\n");
    return;
  }
  std::vector<std::string> titles{""};
  titles.insert(titles.end(), matrix.names.begin(), matrix.names.end());
  titles.push_back("near cores");
  TextTable table(titles);
  for (size_t i = 0; i < matrix.names.size(); ++i) {
    std::vector<std::string> row{styled(matrix.names[i], Style::cyan)};
    row.insert(row.end(), matrix.links[i].begin(), matrix.links[i].end());
    row.push_back(matrix.cpus[i]);
    table.add(row);
  }
  fmt::print(
      "{}\nNV#  # NVLinks   HCCS  Ascend's links   SIO  two dies of a card   PIX  one PCIe switch\n"
      "PXB  several switches   PHB  through the CPU   NODE  within a NUMA node   SYS  between nodes\n",
      table.str(static_cast<size_t>(terminal::columns())));
}

Json to_json(const DeviceRecord& d) {
  auto number = [](const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"name", d.name},
          {"model", d.model},
          {"memory_total", d.memory_total},
          {"memory_used", d.memory_used},
          {"busy_percent", number(d.utilization_percent)},
          {"celsius", number(d.celsius)},
          {"watts", number(d.watts)},
          {"healthy", d.error.empty()},
          {"trouble", d.error}};
}

}  // namespace

int devices_command(const Options& options) {
  const ToolArguments args(options);
  bool json = *args.format == "json";
  if (*args.show == "topo") {
    auto matrix = device::link_matrix();
    if (json)
      fmt::print("{}\n", Json{{"devices", matrix.names}, {"links", matrix.links}, {"cpus", matrix.cpus}}.dump(2));
    else
      print_links(matrix);
    return 0;
  }
  auto devices = device::inventory();
  Json rows = Json::array();
  for (const auto& device : devices) rows.push_back(to_json(device));
  if (json)
    fmt::print("{}\n", rows.dump(2));
  else
    print_table(devices);
  bool well = std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d.error.empty(); });
  return static_cast<int>(well ? ExitCode::ok : ExitCode::failure);
}

}  // namespace hone::cli
