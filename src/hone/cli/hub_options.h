// From Options to the settings of src/hone/hub, and adapters by name.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Selects the hub and applies the contents of the folders a command names: --ckpt_dir, adapters by hub id, args.json, the base of
// an adapter. Without `check`, missing or wrong folders are reported when they are opened.
void resolve_folders(Options& options, bool check = true);

// The base named in adapter_config.json: a local folder or a hub id. Throws UserError(usage) for anything else.
std::string base_of_adapter(const std::string& adapter);

}  // namespace hone::cli
