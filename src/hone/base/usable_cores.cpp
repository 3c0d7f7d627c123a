#include "hone/base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace hone {

namespace fs = std::filesystem;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::optional<double> number_in(const fs::path& file) {
  double value = 0;
  return std::ifstream(file) >> value ? std::optional(value) : std::nullopt;
}

double share(double quota, double period) { return quota > 0 && period > 0 ? quota / period : kNoLimit; }

// Version 2: "max 100000", or a quota in microseconds and its period.
double limit_v2(const fs::path& group) {
  std::string quota;
  double period = 0;
  std::ifstream file(group / "cpu.max");
  if (!(file >> quota >> period) || quota == "max") return kNoLimit;
  return share(std::strtod(quota.c_str(), nullptr), period);
}
double limit_v1(const fs::path& group) {
  return share(number_in(group / "cpu.cfs_quota_us").value_or(-1), number_in(group / "cpu.cfs_period_us").value_or(0));
}

// The smallest limit of a cgroup and its ancestors. Inside a container the path may name a cgroup of the host, which is not
// visible.
template <class Limit>
double smallest_limit(const fs::path& mount, const std::string& path, Limit limit) {
  double smallest = limit(mount);
  fs::path group = mount;
  for (const auto& name : fs::path(path).relative_path()) smallest = std::min(smallest, limit(group /= name));
  return smallest;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> out;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, status] = std::from_chars(at, end, first);
    if (status != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') next = std::from_chars(next + 1, end, last).ptr;
    for (int core = first; core <= std::min(last, CPU_SETSIZE - 1); ++core) out.push_back(core);
    if (next < end && *next != ',') break;
    at = next + 1;
  }
  return out;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) out.push_back(core);
  return out;
}

double cpu_quota(const fs::path& root) {
  const fs::path groups = root / "sys/fs/cgroup";
  double smallest = kNoLimit;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b"; in version 2 "0::/a/b"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) smallest = std::min(smallest, smallest_limit(groups, path, limit_v2));
    if (names_cpu(controllers))
      for (const auto& mount : {fs::path("cpu"), fs::path(controllers)})
        smallest = std::min(smallest, smallest_limit(groups / mount, path, limit_v1));
  }
  return smallest;
}

int usable_cores() {
  static const int count = [] {
    const auto allowed = static_cast<double>(std::max<size_t>(1, allowed_cores().size()));
    return static_cast<int>(std::max(1.0, std::min(allowed, std::ceil(cpu_quota()))));
  }();
  return count;
}

std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed, const fs::path& root) {
  std::map<int, std::vector<int>> by_number;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", absent)) {
    const auto name = entry.path().filename().string();
    int number = 0;
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, name.data() + name.size(), number).ec != std::errc())
      continue;
    std::string list;
    std::getline(std::ifstream(entry.path() / "cpulist"), list);
    for (int core : parse_core_list(list))
      if (std::ranges::find(allowed, core) != allowed.end()) by_number[number].push_back(core);
  }
  std::vector<std::vector<int>> nodes;
  for (auto& [number, cores] : by_number) nodes.push_back(std::move(cores));
  if (nodes.empty()) nodes.push_back(allowed);
  return nodes;
}

std::vector<int> share_of_cores(const std::vector<std::vector<int>>& nodes, int index, int count) {
  std::vector<int> all;
  for (const auto& node : nodes) all.insert(all.end(), node.begin(), node.end());
  const auto total = all.size(), shares = static_cast<size_t>(count), own = static_cast<size_t>(index);
  if (total == 0) return all;
  if (shares > total) return {all[own % total]};
  return {all.begin() + static_cast<std::ptrdiff_t>(total * own / shares),
          all.begin() + static_cast<std::ptrdiff_t>(total * (own + 1) / shares)};
}

bool bind_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace hone
