// Collectives between accelerators: NCCL on NVIDIA GPUs, HCCL on Ascend NPUs, and Gloo for host tensors.
#pragma once
#include "hone/parallel/collectives/group_context.h"

namespace hone::parallel {

// Throws UserError(usage) when this build has no collectives for the device.
std::unique_ptr<ProcessGroup> make_device_group(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
