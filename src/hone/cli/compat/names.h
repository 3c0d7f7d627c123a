// The flags and keys of ms-swift and LLaMA-Factory, command by command: facts that the options table is checked against.
// docs/compatibility.md is generated from both.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "hone/cli/option.h"

namespace hone::cli::compat {

struct Command {
  FrontEnd dialect;
  std::string_view name;
  Verbs verb;
  std::array<std::string_view, 6> parts;  // names with blanks between

  std::vector<std::string_view> names() const;
};

std::span<const Command> commands();

// Whether the system of this front end accepts the name in that command. The native front end accepts what either does.
bool takes(FrontEnd front_end, Verbs verb, std::string_view name);

}  // namespace hone::cli::compat
