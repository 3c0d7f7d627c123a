// `hone ray-submit 4 -- hone sft …`: the ranks of a command as actors of a Ray cluster.
#include <unistd.h>

#include <cstring>

#include "hone/cli/commands.h"
#include "hone/cli/commands/ray_driver.h"

namespace hone::cli {

int ray_submit_command(const Options& options) {
  if (options.positional().empty())
    throw UserError(ExitCode::usage, "no number of processes and no command", "hone ray-submit 2 -- hone sft …");
  const char* chosen = std::getenv("HONE_PYTHON");
  std::string python = chosen && *chosen ? chosen : "python3";
  std::vector<std::string> words{python, "-c", kRayDriver};
  words.insert(words.end(), options.positional().begin(), options.positional().end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(python.c_str(), argv.data());
  throw UserError(ExitCode::usage, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
                  "name a Python that has Ray in HONE_PYTHON");
}

}  // namespace hone::cli
