// Commands that the messages of a run suggest. A front end writes them, since they are made of its options.
#pragma once
#include <functional>
#include <string>

#include "hone/base/file.h"

namespace hone::train {

struct RunResult;

// Suggests commands to run after this result. `weights`: the folder of its final or best weights.
using NextCommand = std::function<std::string(const RunResult& finished, const std::string& weights)>;

struct SuggestedCommands {
  NextCommand next;
  std::function<std::string(const fs::path& checkpoint)> merge;  // a checkpoint of an adapter into its base model
};

}  // namespace hone::train
