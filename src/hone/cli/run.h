// Runs the program: from its arguments to its exit code.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/cli/commands.h"
#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// A parsed command line, before execution.
struct Invocation {
  FrontEnd front_end = FrontEnd::hone;
  const Command* command = nullptr;
  std::string typed;               // the verb as typed
  std::vector<std::string> words;  // after the verb
  std::vector<std::string> notes;  // of a launcher in front of it
};

// Throws UserError(usage) for an unknown verb. `words` excludes the program's own name.
Invocation read_invocation(FrontEnd front_end, std::vector<std::string> words);
Parsed parse_invocation(const Invocation& invocation, const SystemAccess& system);
// The options as the command gets them: variables set, notes logged, folders located, checkpoints' values applied, every "auto"
// resolved, combinations checked. None if --show_config printed them instead.
std::optional<Options> resolve(Parsed parsed);

// Runs the command; every failure becomes "error: …" with a hint on stderr and an exit code.
int run_program(const std::string& program, std::vector<std::string> words);

}  // namespace hone::cli
