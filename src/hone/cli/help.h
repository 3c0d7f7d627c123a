// Help texts, made from the command and options tables.
#pragma once
#include <string>

#include "hone/cli/commands.h"

namespace hone::cli {

std::string program_help(FrontEnd front_end);
// `topic`: "" lists the common options, "all" everything, else a group of options.
std::string command_help(FrontEnd front_end, const Command& command, std::string_view typed, std::string_view topic = {});
// Every option with this word in its name, another name, its description or its group. Throws UserError(usage) if there is
// none.
std::string matching_options(std::string_view word);
// Every option with its value and where it came from; as one JSON object when `as_json`.
std::string config_table(const Options& options, bool as_json);

}  // namespace hone::cli
