// From arguments, files and the environment to Options, by the rules of both dialects.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/cli/options.h"
#include "hone/cli/parsing/config_entries.h"

namespace hone::cli {

std::string underscored(std::string_view name);  // options may be typed with hyphens

using Assignments = std::vector<std::pair<std::string, std::string>>;  // variables and their values

struct Parsed {
  Options options;
  std::vector<std::string> notes;  // accepted options and why they do nothing; one line each
  Assignments environment;         // a config file's ENV, for variables that are not set yet
  bool help = false;
  std::string help_topic;  // a group of options, or "all"
};

struct Syntax {
  FrontEnd front_end = FrontEnd::hone;
  std::string command;  // as typed
  Verbs verb = 0;
  bool config_first = false;    // a .yaml, .yml or .json as first word is a config file
  int max_words = 0;            // words that are not options
  bool whole_line = false;      // from the first such word on, everything is another command's
  bool passes_options = false;  // everything is, but the command's own options
};

// Throws only UserError(usage), for any input.
Parsed parse_arguments(const Syntax& syntax, const std::vector<std::string>& words, const SystemAccess& system);

}  // namespace hone::cli
