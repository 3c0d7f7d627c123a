// Numbers that the environment gives: one out of its range is reported before anything reads it.
#pragma once
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// Throws UserError(usage) for the first variable that is set to something else than an integer of its range.
void check_environment_numbers(const SystemAccess& world);

}  // namespace hone::cli
