// Help texts, made from the command and options tables.
#pragma once
#include <string>

#include "hone/cli/commands.h"

namespace hone::cli {

// How wide a printed page is: the terminal's width, within reason.
size_t page_width();

std::string program_help(FrontEnd front_end);
// `topic`: "" is what most runs need, "all" everything, else a group of options.
std::string command_help(FrontEnd front_end, const Command& command, std::string_view typed, std::string_view topic = {});
// Every option with this word in its name, in one of its other names, in its explanation or its group. Throws UserError(usage)
// for none.
std::string matching_options(std::string_view word);
// Every option with its value and where it came from; as one JSON object when `as_json`.
std::string config_table(const Options& options, bool as_json);

// `text` broken into lines of at most `width` cells, the later ones indented.
std::string wrap(std::string_view text, size_t width, size_t indent);

}  // namespace hone::cli
