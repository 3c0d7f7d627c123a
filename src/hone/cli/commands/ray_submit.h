// Runs the ranks of a command as actors of a Ray cluster.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/cli/options.h"

namespace hone::cli {

// Becomes the driver, which is Python: `words` are the arguments of `hone ray-submit`: options, "--" and a command. Throws
// UserError if no such Python exists.
[[noreturn]] void submit_to_ray(const std::vector<std::string>& words);

// LLaMA-Factory's USE_RAY=1 and its cluster settings: the arguments of `hone ray-submit` before "--"; nothing if hone starts the
// processes itself: without USE_RAY, without options about a cluster, and in a process that was started as a rank. Throws
// UserError(usage).
std::optional<std::vector<std::string>> ray_submission(const Options& options);

}  // namespace hone::cli
