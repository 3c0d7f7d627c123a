// The models and adapters that a command names: by folder or by hub id, checked before anything is read from them.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"

namespace hone::cli {

// Selects the hub and applies the contents of the folders a command names: --ckpt_dir, adapters by hub id, args.json, the base of
// an adapter. Without `check`, missing or wrong folders are reported when they are opened.
void resolve_folders(Options& options, bool check = true);

// The folder of --model at --model_revision, downloaded if necessary. Throws UserError(usage) without --model.
std::filesystem::path model_folder(const Options& options);

// The base named in adapter_config.json: a local folder or a hub id. Throws UserError(usage) for anything else.
std::string base_of_adapter(const std::string& adapter);

// Throws UserError stating what the folder contains instead (nothing, a model, a run with checkpoints) and what to pass.
void require_adapter_folder(const Options& options, const std::string& folder);
// The same for a --model folder without config.json: an adapter, or a run with checkpoints. Other missing files are reported when
// it is opened.
void require_model_folder(const Options& options);

}  // namespace hone::cli
