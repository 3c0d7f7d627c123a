// help, the options table, completion scripts, the version.
#include "hone/cli/help.h"

#include <fmt/ranges.h>
#include <torch/version.h>

#include "hone/base/version.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/compat/compatibility.h"
#include "hone/cli/generate_docs.h"
#include "hone/serve/schema/fields.h"

namespace hone::cli {

int help_command(const Options& options) {
  if (options.positional().empty()) {
    fmt::print("{}", program_help(options.front_end()));
    return 0;
  }
  const auto& topic = options.positional()[0];
  const auto* command = find_command(options.front_end(), topic);
  if (!command) {
    const auto near = nearest_command(options.front_end(), topic);
    throw UserError(
        ExitCode::usage, fmt::format("unknown command \"{}\"", topic),
        near.empty() ? fmt::format("{} --help lists the commands", program_name(options.front_end())) : "did you mean " + near);
  }
  fmt::print("{}", command_help(options.front_end(), *command, topic,
                                fmt::format("{}", fmt::join(options.positional().begin() + 1, options.positional().end(), " "))));
  return 0;
}

// As text, as Markdown for the documentation, or as JSON.
int options_command(const Options& options) {
  if (!options.positional().empty()) {
    fmt::print("{}", matching_options(options.positional()[0]));
    return 0;
  }
  auto format = *ToolArguments(options).format;
  if (format == "compatibility") {
    fmt::print("{}", compat::compatibility_markdown());
    return 0;
  }
  if (format == "requests") {
    fmt::print("{}", serve::field_markdown());
    return 0;
  }
  fmt::print("{}", format == "markdown" ? options_markdown() : format == "json" ? options_json() : options_text());
  return 0;
}

int completion_command(const Options& options) {
  auto shell = options.positional().empty() ? std::string() : options.positional()[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw UserError(ExitCode::usage, fmt::format("completion for \"{}\"; expected bash, zsh or fish", shell),
                    "source <(hone completion bash)");
  fmt::print("{}", completion_script(shell == "bash" ? Shell::bash : shell == "zsh" ? Shell::zsh : Shell::fish));
  return 0;
}

int version_command(const Options&) {
  fmt::print("hone {} (libtorch {})\n", version(), TORCH_VERSION);
  return 0;
}

}  // namespace hone::cli
