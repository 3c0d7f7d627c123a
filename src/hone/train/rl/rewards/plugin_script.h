// The Python program that runs plugins in a separate interpreter.
#pragma once

namespace hone::train::rl {

// Reads requests from file descriptor 3 and writes replies to 4, one JSON text per line. Its arguments are the plugin files.
extern const char kPluginScript[];
// Its part for multi-turn schedulers and loss scales, which it loads first.
extern const char kPluginTurns[];

}  // namespace hone::train::rl
