// The help text of one option.
#pragma once
#include <string>

#include "hone/cli/table.h"

namespace hone::cli {

// Column of the descriptions; narrow terminals leave room for the longest word.
size_t name_column(size_t width);
// Whether the displayed name is a negated one, as disable_gradient_checkpointing.
bool shown_negated(const Option& option, FrontEnd front_end);
// Its name, placeholder, description, choices and default, on lines of at most `width` cells.
std::string option_help(const Option& option, FrontEnd front_end, Verbs verb, size_t width);

}  // namespace hone::cli
