// The Python program that runs plugins in a separate interpreter.
#pragma once

namespace hone::train::rl {

// Reads requests from file descriptor 3 and writes replies to 4, one JSON text per line. Its arguments are the plugin files.
extern const char kPluginScript[];
// What it loads before: the classes that plugins know, and what runs multi-turn schedulers and loss scales.
extern const char kPluginClasses[], kPluginTurns[];

}  // namespace hone::train::rl
