// LLaMA-Factory's run on a Ray cluster: USE_RAY=1 and what it says of the cluster.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/cli/options.h"

namespace hone::cli {

// The words for `hone ray-submit` before "--"; nothing where hone starts the processes itself: without USE_RAY, where no option
// speaks of a cluster, and in a process that was started for a rank. Throws UserError(usage).
std::optional<std::vector<std::string>> ray_submission(const Options& options);

}  // namespace hone::cli
