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

// Empty if the variable is not set.
std::string environment_value(const char* variable);

// A variable that is on or off: true, yes, y, t, on and 1 or their opposites, in any case. None: unset, empty or another word.
std::optional<bool> environment_flag(const SystemAccess& system, const std::string& variable);

// The number of processes by NPROC_PER_NODE and NNODES, on all nodes.
int processes_of_environment(const SystemAccess& system);

// The process that reports what holds for all: the one that starts the ranks, otherwise rank 0.
bool is_reporting_process();

}  // namespace hone::cli
