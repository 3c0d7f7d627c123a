// Whether a whole command line, as it stands in a guide, would parse: `hone check-args -- NPROC_PER_NODE=2 swift sft --model x`.
#include "hone/base/file.h"
#include "hone/cli/run.h"

namespace hone::cli {

int check_args_command(const Options& options) {
  auto words = options.words();
  auto is_assignment = [](const std::string& word) {
    auto equals = word.find('=');
    return equals != std::string::npos && equals > 0 && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == equals;
  };
  while (!words.empty() && is_assignment(words.front())) words.erase(words.begin());
  if (words.size() < 2) throw UserError(ExitCode::usage, "check-args needs a program and a command");
  auto front_end = front_end_of(words[0]);
  if (words[1] == "--help" || words[1] == "--version") return 0;
  auto invocation = read_invocation(front_end, {words.begin() + 1, words.end()});
  // A guide's own files need not be here: a config file that is absent counts as empty.
  auto world = real_world();
  auto read = world.read_file;
  world.read_file = [read](const std::string& path) { return fs::exists(path) ? read(path) : std::string("{}"); };
  parse_invocation(invocation, world);
  return 0;
}

}  // namespace hone::cli
