#include "hone/device/npu_cards.h"

#include <sched.h>

#include <charconv>
#include <cstdlib>

#include "hone/device/npu_dcmi.h"
#include "hone/device/npu_smi.h"
#include "hone/device/tensor.h"

namespace hone::device::npu {
namespace {

// ASCEND_RT_VISIBLE_DEVICES renumbers what a process sees; DCMI and npu-smi know nothing of it.
int logic_number(int visible_index) {
  const char* list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (!list) return visible_index;
  auto numbers = parse_cores(list);
  return static_cast<size_t>(visible_index) < numbers.size() ? numbers[static_cast<size_t>(visible_index)] : visible_index;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) out.push_back(core);
  return out;
}

}  // namespace

std::vector<DeviceRecord> cards() {
  const auto* dcmi = Dcmi::get();
  return dcmi ? dcmi->devices() : smi_devices();
}

LinkMatrix card_links() {
  const auto* dcmi = Dcmi::get();
  return dcmi ? dcmi->links() : smi_links();
}

std::vector<int> parse_cores(const std::string& text) {
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

std::string bind_near(int visible_index) {
  if (std::getenv("CPU_AFFINITY_CONF")) return "";
  auto near = card_links().cpus;
  auto card = static_cast<size_t>(logic_number(visible_index));
  auto allowed = allowed_cores();
  std::vector<int> chosen;
  if (card < near.size())
    for (int core : parse_cores(near[card]))
      if (std::ranges::find(allowed, core) != allowed.end()) chosen.push_back(core);
  if (chosen.empty() || chosen.size() == allowed.size()) return "";
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : chosen) CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) return "";
  if (at::get_num_threads() > static_cast<int>(chosen.size())) at::set_num_threads(static_cast<int>(chosen.size()));
  return core_list(chosen);
}

}  // namespace hone::device::npu
