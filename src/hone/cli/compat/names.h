// The flags and keys that ms-swift and LLaMA-Factory themselves take, command by command: facts about them, against which the
// options table is measured. docs/compatibility.md is written from both.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "hone/cli/option.h"

namespace hone::cli::peers {

struct Command {
  FrontEnd dialect;
  std::string_view name;
  Verbs verb;
  std::array<std::string_view, 5> parts;  // names with blanks between

  std::vector<std::string_view> names() const;
};

std::span<const Command> commands();

// Does the system whose front end this is take the name in that command? The native front end takes what either does.
bool takes(FrontEnd front_end, Verbs verb, std::string_view name);

}  // namespace hone::cli::peers
