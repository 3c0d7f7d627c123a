// Finds the newest checkpoint in a run's folder, if a user names the run instead of a checkpoint.
#pragma once
#include <cstdint>
#include <optional>

#include "hone/base/file.h"

namespace hone::io {

// 12 of "checkpoint-12"; nothing for names of another kind, such as checkpoint-12-merged.
std::optional<int64_t> checkpoint_step(const fs::path& folder);

// The highest checkpoint-N with an adapter or a model in it, of a run's folder or of the newest run in a folder of runs
// (vN-date).
std::optional<fs::path> newest_checkpoint_in(const fs::path& folder);

}  // namespace hone::io
