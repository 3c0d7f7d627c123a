// The Python program that runs plugins in a separate interpreter.
#pragma once

namespace hone::train::rl {

// Reads requests from file descriptor 3 and writes replies to 4, one JSON text per line. Its arguments are the plugin files.
extern const char kPluginScript[];
// Loaded before it: the classes that plugins may use, and the runner of multi-turn schedulers and loss scales.
extern const char kPluginClasses[], kPluginTurns[];

}  // namespace hone::train::rl
