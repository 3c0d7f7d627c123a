// The commands that a run suggests in its messages, in the words of the front end.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/suggested_commands.h"

namespace hone::cli {

train::SuggestedCommands suggested_commands(FrontEnd front_end);

}  // namespace hone::cli
