// Loss scales that Python plugins register.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Unknown names of --loss_scale are looked up in --external_plugins. Call it before creating an encoder.
void add_plugin_loss_scales(const Options& options);

}  // namespace hone::cli
