// The Ascend cards of this machine, regardless of visibility: from DCMI if available, else from npu-smi's tables.
#pragma once
#include <string>
#include <vector>

#include "hone/device/inventory.h"

namespace hone::device::npu {

std::vector<DeviceRecord> cards();
LinkMatrix card_links();

// Binds the process and its later threads to the cores near its card of this number. Returns these cores as a list; empty if
// unknown, if it would be all cores, or if CPU_AFFINITY_CONF leaves this to torch_npu.
std::string bind_to_local_cores(int visible_index);

}  // namespace hone::device::npu
