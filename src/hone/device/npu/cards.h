// The Ascend cards of this machine, whatever the process may see: from DCMI where it answers, else from npu-smi's tables.
#pragma once
#include <string>
#include <vector>

#include "hone/device/inventory.h"

namespace hone::device::npu {

std::vector<DeviceRecord> cards();
LinkMatrix card_links();

// The process and all threads it starts stay on the cores near the card that it sees under this number. Returns these cores, as a
// list; empty when the machine does not say, when that is all cores, or when CPU_AFFINITY_CONF leaves the matter to torch_npu.
std::string bind_to_local_cores(int visible_index);

}  // namespace hone::device::npu
