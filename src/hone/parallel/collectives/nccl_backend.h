// NCCL, where libtorch has it.
#pragma once
#include "hone/parallel/collectives/backend_group.h"

namespace hone::parallel {

// Throws UserError(usage) when this build has none, or for a device that is not an NVIDIA GPU.
CollectiveBackend nccl_backend(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
