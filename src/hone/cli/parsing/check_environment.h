// Checks the range of numeric environment variables before they are read.
#pragma once
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// Throws UserError(usage) for the first variable that is not an integer in its range.
void check_environment_numbers(const SystemAccess& world);

}  // namespace hone::cli
