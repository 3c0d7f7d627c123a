// The arguments that a run stored with its checkpoints.
#pragma once
#include <string>

#include "hone/cli/options.h"

namespace hone::cli {

// Applies a checkpoint's args.json as ms-swift does: some values always, some only if not given, the data options on request.
// `folder` contains args.json.
void apply_checkpoint_args(Options& options, const std::string& folder, const Json& args);
// The first of --adapters, --model that holds an args.json; applies it if --load_args is set.
void load_checkpoint_args(Options& options);

}  // namespace hone::cli
