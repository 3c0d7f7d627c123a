// sft, pt, train: from the resolved options to a run of the trainer.
#include "hone/cli/commands.h"
#include "hone/cli/help.h"

namespace hone::cli {

int train_command(const Options& options) {
  fmt::print("{}", config_table(options, options.text("log_format") == "json"));
  throw UserError(ExitCode::usage, fmt::format("{} is being wired in this build", options.command()));
}

}  // namespace hone::cli
