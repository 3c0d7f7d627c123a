// The few options that most runs of a command need, and an example command line: shown first in its help.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/cli/option.h"

namespace hone::cli {

struct CommonOptions {
  std::vector<std::string_view> names;  // of the table's rows; empty: the command has so few that all are shown
  std::string example;
};

CommonOptions common_options(FrontEnd front_end, Verbs verb);

}  // namespace hone::cli
