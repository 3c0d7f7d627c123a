// Collectives between CPUs.
#pragma once
#include "hone/parallel/collectives/group_context.h"

namespace hone::parallel {

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupContext& context, const std::string& name, int rank, int size);

}  // namespace hone::parallel
