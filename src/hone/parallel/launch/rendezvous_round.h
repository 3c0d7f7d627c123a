// Elastic launches: before each attempt the supervisors of the nodes agree on who takes part. The node that is not there is left
// out.
#pragma once
#include "hone/parallel/launch/world.h"

namespace hone::parallel {

// The launch as all nodes that came agreed on it: their number, and this node's place among them. A launch that is not elastic
// (min_nodes 0) comes back as it is. Node 0 keeps the list, so that it must always be there.
LaunchConfig agree_on_nodes(const LaunchConfig& launch, int attempt);

}  // namespace hone::parallel
