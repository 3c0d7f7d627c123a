// Options that libraries and other processes read as environment variables, and variables for devices that this machine lacks.
#pragma once
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// Sets --model_kwargs in upper case, and addresses and ranks that a launcher passed as options, as variables unless they are set.
Assignments variables_of(const Options& options);

// "ASCEND_RT_VISIBLE_DEVICES is set, and there is no such device here: running on cuda". Empty if there is nothing to report.
std::string absent_family(const SystemAccess& world);

}  // namespace hone::cli
