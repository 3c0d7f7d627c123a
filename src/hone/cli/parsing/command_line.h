// A full command line as in a guide or script: variables, program, command, options. For commands that examine another command
// instead of running it: check-args, convert-config, plan.
#pragma once
#include "hone/cli/run.h"

namespace hone::cli {

struct CommandLine {
  Assignments environment;  // NPROC_PER_NODE=2 in front of the program
  Invocation invocation;
};

// Accepts hone, swift, llamafactory-cli, lmf, accelerate launch, torchrun and python with LLaMA-Factory's scripts, a config
// file alone, a bare command of `front_end`, and options alone, which are those of a training command. Throws UserError(usage).
CommandLine read_command_line(std::vector<std::string> words, const SystemAccess& system, FrontEnd front_end = FrontEnd::hone);

// The environment of the command: its own variables first.
SystemAccess with_environment(const SystemAccess& system, const Assignments& environment);

}  // namespace hone::cli
