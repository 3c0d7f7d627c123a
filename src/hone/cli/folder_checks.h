// Checks the folders given as --model and --adapters before anything is read from them.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Throws UserError stating what the folder contains instead (nothing, a model, a run with checkpoints) and what to pass.
void require_adapter_folder(const Options& options, const std::string& folder);
// The same for a --model folder without config.json: an adapter, or a run with checkpoints. Other missing files are reported when
// it is opened.
void require_model_folder(const Options& options);

}  // namespace hone::cli
