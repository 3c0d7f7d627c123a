// Collectives between Ascend NPUs: torch_npu's HCCL backend.
#pragma once
#include "hone/parallel/gloo_group.h"

namespace hone::parallel {

std::unique_ptr<ProcessGroup> make_hccl_group(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
