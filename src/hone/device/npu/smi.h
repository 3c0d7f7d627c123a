// Ascend cards from npu-smi's output. The tool is on every machine with a driver and in containers that mount it; its tables
// differ by generation, so columns are identified by content.
#pragma once
#include <string>
#include <vector>

#include "hone/device/inventory.h"

namespace hone::device::npu {

// Cards in the order of their logical numbers, whatever the process may see. Empty without the tool.
std::vector<DeviceRecord> smi_devices();
LinkMatrix smi_links();

// The parsers, for any text: unreadable lines are skipped.
std::vector<DeviceRecord> parse_smi_info(const std::string& text);
LinkMatrix parse_smi_topology(const std::string& text);

}  // namespace hone::device::npu
