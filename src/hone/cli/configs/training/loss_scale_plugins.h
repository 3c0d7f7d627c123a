// Loss scales that Python plugins register.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

// Names of --loss_scale that are not hone's own are those of --external_plugins. Before an encoder is made.
void add_plugin_loss_scales(const Options& options);

}  // namespace hone::cli
