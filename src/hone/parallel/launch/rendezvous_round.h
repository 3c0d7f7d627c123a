// Elastic launches: before each attempt the supervisors agree on the participating nodes. A missing node is left out.
#pragma once
#include "hone/parallel/launch/world.h"

namespace hone::parallel {

// The launch that the present nodes agreed on: their number, and this node's rank. A launch that is not elastic (min_nodes 0) is
// returned unchanged. Node 0 keeps the list, so it must always be present.
LaunchConfig agree_on_nodes(const LaunchConfig& launch, int attempt);

}  // namespace hone::parallel
