// torch_npu's HCCL backend.
#pragma once
#include "hone/parallel/collectives/backend_group.h"

namespace hone::parallel {

CollectiveBackend hccl_backend(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
