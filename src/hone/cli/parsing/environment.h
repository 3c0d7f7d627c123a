// Environment variables: checks before they are read, and those that options set for libraries and other processes.
#pragma once
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// Throws UserError(usage) for the first variable that is not an integer in its range.
void check_environment_numbers(const SystemAccess& system);

// Throws UserError with the variable, its value and the values that it may have.
void check_emulated_machine();

// Sets --model_kwargs in upper case, and addresses and ranks that a launcher passed as options, as variables unless they are set.
Assignments variables_of(const Options& options);

// "ASCEND_RT_VISIBLE_DEVICES is set, and there is no such device here: running on cuda". Empty if there is nothing to report.
std::string absent_family(const SystemAccess& system);

}  // namespace hone::cli
