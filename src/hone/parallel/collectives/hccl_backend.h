// torch_npu's HCCL backend.
#pragma once
#include "hone/parallel/collectives/backend_group.h"

namespace hone::parallel {

bool has_hccl_backend();  // in the torch_npu that is loaded
CollectiveBackend hccl_backend(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
