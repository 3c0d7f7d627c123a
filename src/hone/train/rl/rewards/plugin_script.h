// The Python program that runs people's plugins: it is given to an interpreter, hone itself runs none of it.
#pragma once

namespace hone::train::rl {

// Reads requests from file descriptor 3 and answers on 4, a JSON text in each line. Its words are the plugin files.
extern const char kPluginScript[];
// Its part for schedulers of several turns and for loss scales, which it reads first.
extern const char kPluginTurns[];

}  // namespace hone::train::rl
