// torch_npu's HCCL backend.
#pragma once
#include "hone/parallel/backend_group.h"

namespace hone::parallel {

Transport hccl_transport(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
