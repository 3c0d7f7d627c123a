// Translates ms-swift's `megatron sft`, `pt`, `rlhf` and `export` to its `swift` commands.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/cli/parsing/parse.h"

namespace hone::cli {

// Replaces a file of options, the first word after the command or --config, by the options in it. `environment`: the file's
// variables that are not set yet.
struct MegatronWords {
  std::vector<std::string> words;
  Assignments environment;
};
MegatronWords with_megatron_file(std::vector<std::string> words, const SystemAccess& system);
bool is_megatron_command(const std::vector<std::string>& words);  // sft, pt, rlhf or export

// Arguments after the program's name, the command first. `processes` is the world size. Throws UserError(usage) naming an
// unsupported option.
std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes);

// How an option that `swift` lacks, or interprets differently, is handled.
struct MegatronOption {
  enum class Fate {
    renamed,   // to `text`
    accepted,  // changes nothing, for the reason in `text`
    refused,   // for the reason in `text`, unless its value is `neutral`
  };
  std::string_view name;
  Fate fate;
  std::string_view text;
  std::string_view neutral = {};  // values without an effect, separated by |
};
std::span<const MegatronOption> megatron_options();
const MegatronOption* find_megatron_option(std::string_view name);  // null: it has the meaning of `swift`
// Whether a value of a refused option requests nothing.
bool is_neutral(const MegatronOption& option, std::string value);

// Each in a file of its own.
std::vector<std::string> megatron_training_line(const std::vector<std::string>& words, int processes);
std::vector<std::string> megatron_export_line(const std::vector<std::string>& words);

// mcore's own checkpoints, which hone does not read.
inline constexpr std::string_view kMcoreUnread =
    "checkpoints of mcore are not read: convert them with ms-swift's megatron export --to_hf true, then name the folder by "
    "--model or --adapters";

}  // namespace hone::cli
