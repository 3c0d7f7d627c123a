// Collectives between accelerators: NCCL where libtorch has it.
#pragma once
#include "hone/parallel/gloo_group.h"

namespace hone::parallel {

// Throws UserError(usage) when this build has no collectives for the device.
std::unique_ptr<ProcessGroup> make_device_group(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
