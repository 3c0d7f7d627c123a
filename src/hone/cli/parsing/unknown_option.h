// Options and keys that a command does not have: what a user probably meant.
#pragma once
#include <optional>
#include <string>

#include "hone/cli/parsing/parse.h"
#include "hone/cli/table.h"

namespace hone::cli {

struct UnknownOption {
  std::string what;           // the error, with file and line or the flag
  std::string name;           // with underscores
  std::string dashes;         // before a name in the hint; empty for keys of a file
  bool is_tolerated = false;  // the user has chosen to ignore unknown options
};

// The note of an option without effect here; otherwise throws UserError(usage) with a hint.
std::optional<std::string> note_or_refuse_unknown(const Syntax& syntax, const NameIndex& names, const UnknownOption& unknown);

}  // namespace hone::cli
