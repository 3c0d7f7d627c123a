// `megatron sft …` and `megatron pt …` of ms-swift in terms of its own `swift sft` and `swift pt`.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone::cli {

// Words of a line behind the program's name, the command first. `processes` are all those of the run. Throws UserError(usage) for
// what cannot be done, naming the option.
std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes);

// What becomes of an option that `swift sft` does not have, or means otherwise.
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

}  // namespace hone::cli
