// Runs the ranks of a command as actors of a Ray cluster.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

// Becomes the driver, which is Python: `words` are the arguments of `hone ray-submit`: options, "--" and a command. Throws
// UserError if no such Python exists.
[[noreturn]] void submit_to_ray(const std::vector<std::string>& words);

}  // namespace hone::cli
