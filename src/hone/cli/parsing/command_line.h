// A whole command line as in a guide or a script: variables, program, verb, options. For the commands that look at
// another command instead of running it: check-args, convert-config, plan.
#pragma once
#include "hone/cli/run.h"

namespace hone::cli {

struct CommandLine {
  Assignments environment;  // NPROC_PER_NODE=2 in front of the program
  Invocation invocation;
};

// Understands hone, swift, llamafactory-cli, lmf, accelerate launch, torchrun and python with LLaMA-Factory's scripts, a config
// file alone, a bare verb, which is `front_end`'s, and options alone, which are those of a training command. Throws
// UserError(usage).
CommandLine read_command_line(std::vector<std::string> words, const SystemAccess& world, FrontEnd front_end = FrontEnd::hone);

// The world that the command would see: its own variables first.
SystemAccess with_environment(const SystemAccess& world, const Assignments& environment);

}  // namespace hone::cli
