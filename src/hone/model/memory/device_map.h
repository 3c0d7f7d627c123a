// Infers a device map: distributes decoder blocks over devices by their memory budgets, as accelerate does.
#pragma once
#include <filesystem>
#include <vector>

#include "hone/model/memory/placement.h"

namespace hone::model {

struct DeviceBudget {
  at::Device device;
  double bytes;  // for weights
};

// accelerate's strategies: balanced, balanced with the first device as empty as possible, or sequential.
enum class DeviceMapStrategy { balanced, low_first, sequential };

// Blocks stay whole and in order. Embedding, final norm and head are on the first device. Throws UserError(out_of_memory) if the
// weights in `folder` do not fit.
DeviceMap infer_device_map(const std::filesystem::path& folder, const std::vector<DeviceBudget>& rooms, DeviceMapStrategy how);

}  // namespace hone::model
