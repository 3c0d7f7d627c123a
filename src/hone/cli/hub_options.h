// From Options to what src/hone/hub needs to know, and adapters by name.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Which hub is used, and the contents of the folders that a command names: --ckpt_dir, adapters by hub id, what args.json says,
// the base of an adapter. With `check` off, folders that are missing or of another kind are left to who opens them.
void resolve_folders(Options& options, bool check = true);

// What adapter_config.json names: a folder here or a hub id. Throws UserError(usage) for anything else.
std::string base_of_adapter(const std::string& adapter);

}  // namespace hone::cli
