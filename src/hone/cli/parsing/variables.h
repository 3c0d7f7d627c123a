// Where options and environment variables meet: options that libraries and other processes read as variables, and variables that
// are for devices this machine does not have.
#pragma once
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// --model_kwargs in capitals, addresses and ranks that a launcher passed as options. For variables that are not set yet.
Assignments variables_of(const Options& options);

// "ASCEND_RT_VISIBLE_DEVICES is set, and there is no such device here: running on cuda". Empty when all is well.
std::string absent_family(const SystemAccess& world);

}  // namespace hone::cli
