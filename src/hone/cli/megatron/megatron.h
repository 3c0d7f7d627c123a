// Translates ms-swift's `megatron sft`, `pt`, `rlhf` and `export` to its `swift` commands.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone::cli {

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
  std::string_view neutral = {};  // values that ask for nothing, with | between
};
std::span<const MegatronOption> megatron_options();
const MegatronOption* find_megatron_option(std::string_view name);  // null: it means what it means to swift
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
