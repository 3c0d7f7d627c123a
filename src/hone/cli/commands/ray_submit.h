// Ranks of a command as actors of a Ray cluster.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

// Becomes the driver, which is Python: `words` are those of `hone ray-submit`, options, "--" and a command. Throws UserError
// where there is no such Python.
[[noreturn]] void submit_to_ray(const std::vector<std::string>& words);

}  // namespace hone::cli
