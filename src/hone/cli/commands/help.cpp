// Help on the program or on one command.
#include "hone/cli/help.h"

#include <fmt/ranges.h>

namespace hone::cli {

int help_command(const Options& options) {
  if (options.positional().empty()) {
    fmt::print("{}", program_help(options.front_end()));
    return 0;
  }
  const auto& topic = options.positional()[0];
  const auto* command = find_command(options.front_end(), topic);
  if (!command)
    throw UserError(ExitCode::usage, fmt::format("unknown command \"{}\"", topic), nearest_command(options.front_end(), topic));
  fmt::print("{}", command_help(options.front_end(), *command, topic,
                                fmt::format("{}", fmt::join(options.positional().begin() + 1, options.positional().end(), " "))));
  return 0;
}

}  // namespace hone::cli
