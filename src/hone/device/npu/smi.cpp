#include "hone/device/npu/smi.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "hone/base/child_process.h"

namespace hone::device::npu {
namespace {

// Nothing where the program is missing. It may hang when a driver does.
std::string npu_smi(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"timeout", "10", "npu-smi"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto text = program_output({.words = words, .variables = {"LC_ALL=C"}, .null_descriptors = {0, 2}});
  return text ? *text : "";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// "| a | b | c |" → {"a", "b", "c"}; empty for other lines.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out;
  if (line.empty() || line[0] != '|') return out;
  for (size_t start = 1, end; (end = line.find('|', start)) != line.npos; start = end + 1)
    out.push_back(line.substr(start, end - start));
  return out;
}

std::optional<int> whole(const std::string& text) {
  int value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool number = status == std::errc() && (end == text.data() + text.size() || *end == '.');
  return number ? std::optional(value) : std::nullopt;
}

// "0    0 / 0    41697/ 65536" → the last pair around a slash that is not 0 / 0, in MiB.
struct Usage {
  int64_t used = 0, total = 0;
};
Usage memory_of(const std::string& cell) {
  std::string spaced;
  for (char c : cell) c == '/' ? spaced += " / " : spaced += c;
  auto words = words_of(spaced);
  Usage out;
  for (size_t i = 1; i + 1 < words.size(); ++i)
    if (words[i] == "/")
      if (auto used = whole(words[i - 1]), total = whole(words[i + 1]); used && total && *total > 0) out = {*used, *total};
  return out;
}

bool is_device_row(const std::vector<std::string>& cells) {
  if (cells.size() != 3) return false;
  auto first = words_of(cells[0]);
  return first.size() == 2 && whole(first[0]) && !whole(first[1]);
}

}  // namespace

std::vector<DeviceRecord> parse_smi_info(const std::string& text) {
  std::vector<DeviceRecord> out;
  std::istringstream in(text);
  std::string line, next;
  while (std::getline(in, line)) {
    auto upper = cells_of(line);
    if (!is_device_row(upper) || !std::getline(in, next)) continue;
    auto lower = cells_of(next);
    if (lower.size() != 3) continue;
    auto name = words_of(upper[0])[1];
    auto health = words_of(upper[1]), readings = words_of(upper[2]), load = words_of(lower[2]);
    DeviceRecord record{.name = fmt::format("npu:{}", out.size()), .model = name.starts_with("Ascend") ? name : "Ascend " + name};
    auto memory = memory_of(lower[2]);
    record.memory_total = memory.total << 20, record.memory_used = memory.used << 20;
    if (!load.empty()) record.utilization_percent = whole(load[0]);
    if (!readings.empty()) record.watts = whole(readings[0]);
    if (readings.size() > 1) record.celsius = whole(readings[1]);
    if (health.empty() || health[0] != "OK") record.error = health.empty() ? "unknown" : "npu-smi says " + health[0];
    out.push_back(record);
  }
  return out;
}

LinkMatrix parse_smi_topology(const std::string& text) {
  LinkMatrix out;
  std::istringstream in(text);
  std::string line;
  auto is_name = [](const std::string& word) { return word.starts_with("NPU") || word.starts_with("Phy-ID"); };
  size_t columns = 0;
  while (std::getline(in, line)) {
    auto words = words_of(line);
    if (words.empty()) continue;
    if (columns == 0) {
      for (const auto& word : words) columns += is_name(word);
      continue;
    }
    if (!is_name(words[0]) || words.size() < columns + 1) continue;
    out.names.push_back(fmt::format("npu:{}", out.names.size()));
    out.links.emplace_back(words.begin() + 1, words.begin() + 1 + static_cast<std::ptrdiff_t>(columns));
    out.cpus.push_back(words.size() > columns + 1 ? words.back() : "");
  }
  return out;
}

std::vector<DeviceRecord> smi_devices() { return parse_smi_info(npu_smi({"info"})); }
LinkMatrix smi_links() { return parse_smi_topology(npu_smi({"info", "-t", "topo"})); }

}  // namespace hone::device::npu
