// LLaMA-Factory on a Ray cluster: USE_RAY=1 and its cluster settings.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/cli/options.h"

namespace hone::cli {

// The arguments of `hone ray-submit` before "--"; nothing if hone starts the processes itself: without USE_RAY, without options
// about a cluster, and in a process that was started as a rank. Throws UserError(usage).
std::optional<std::vector<std::string>> ray_submission(const Options& options);

}  // namespace hone::cli
