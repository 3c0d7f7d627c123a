#include "hone/device/npu/cards.h"

#include <algorithm>

#include "hone/base/usable_cores.h"
#include "hone/device/npu/dcmi.h"
#include "hone/device/npu/smi.h"
#include "hone/device/npu/variables.h"
#include "hone/device/tensor.h"

namespace hone::device::npu {
namespace {

// ASCEND_RT_VISIBLE_DEVICES renumbers the devices of a process; DCMI and npu-smi ignore it.
int logic_number(int visible_index) {
  const auto list = visible_devices();
  if (!list) return visible_index;
  auto numbers = parse_core_list(*list);
  return static_cast<size_t>(visible_index) < numbers.size() ? numbers[static_cast<size_t>(visible_index)] : visible_index;
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

std::string bind_to_local_cores(int visible_index) {
  if (!variable("CPU_AFFINITY_CONF").empty()) return "";
  auto near = card_links().cpus;
  auto card = static_cast<size_t>(logic_number(visible_index));
  auto allowed = allowed_cores();
  std::vector<int> chosen;
  if (card < near.size())
    for (int core : parse_core_list(near[card]))
      if (std::ranges::find(allowed, core) != allowed.end()) chosen.push_back(core);
  if (chosen.empty() || chosen.size() == allowed.size()) return "";
  if (!bind_to(chosen)) return "";
  if (at::get_num_threads() > static_cast<int>(chosen.size())) at::set_num_threads(static_cast<int>(chosen.size()));
  return core_list(chosen);
}

}  // namespace hone::device::npu
