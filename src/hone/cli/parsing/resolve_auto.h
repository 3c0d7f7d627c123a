// The one place where "auto" becomes a value.
#pragma once
#include <string>

#include "hone/cli/options.h"

namespace hone::cli {

// Resolves every "auto" that can be known before the model is loaded.
void resolve_auto_values(Options& options, int world_size);
// "learning_rate 0.0001, packing false": resolved values of "auto" that affect the run.
std::string describe_auto_values(const Options& options);

}  // namespace hone::cli
