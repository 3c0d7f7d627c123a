// Prints the completion script of a shell.
#include "hone/cli/commands.h"
#include "hone/cli/generate_docs.h"

namespace hone::cli {

int completion_command(const Options& options) {
  auto shell = options.positional().empty() ? std::string() : options.positional()[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw UserError(ExitCode::usage, fmt::format("completion for \"{}\"; expected bash, zsh or fish", shell),
                    "source <(hone completion bash)");
  fmt::print("{}", completion_script(shell == "bash" ? Shell::bash : shell == "zsh" ? Shell::zsh : Shell::fish));
  return 0;
}

}  // namespace hone::cli
