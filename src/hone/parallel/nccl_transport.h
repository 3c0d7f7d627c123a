// NCCL, where libtorch has it.
#pragma once
#include "hone/parallel/backend_group.h"

namespace hone::parallel {

// Throws UserError(usage) when this build has none, or for a device that is no NVIDIA GPU.
Transport nccl_transport(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
