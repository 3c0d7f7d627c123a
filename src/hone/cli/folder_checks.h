// Checks the folders given as --model and --adapters before anything is read from them.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Throws UserError that says what the folder holds instead: nothing, a model, a run with checkpoints; and what to pass.
void require_adapter_folder(const Options& options, const std::string& folder);
// The same of --model where it is a folder without config.json: an adapter, or a run with checkpoints. What else it may lack is
// reported by who opens it.
void require_model_folder(const Options& options);

}  // namespace hone::cli
