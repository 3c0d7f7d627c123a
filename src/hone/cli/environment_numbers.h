// Numbers that the environment gives: one out of its range is told before anything reads it.
#pragma once
#include "hone/cli/parse.h"

namespace hone::cli {

// Throws UserError(usage) for the first variable that is set to something else than a whole number of its range.
void check_environment_numbers(const World& world);

}  // namespace hone::cli
