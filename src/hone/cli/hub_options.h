// From Options to what src/hone/hub needs to know, and adapters by name.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Which hub is asked, with which token, into which cache. Called once when a command starts.
void configure_hub(const Options& options);

// --ckpt_dir names what --adapters or --model would, whichever it holds.
void find_checkpoint(Options& options);

// Replaces adapters that are hub ids by the folders they are found in, so that their args.json can be read like any other.
void find_adapters(Options& options);

// What adapter_config.json names: a folder here or a hub id. Throws UserError(usage) for anything else.
std::string base_of_adapter(const std::string& adapter);
// Without --model the first adapter's base is meant. An export that merges asks for it itself: one that only sends an adapter
// needs none.
void find_base(Options& options);

}  // namespace hone::cli
