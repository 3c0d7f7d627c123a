// Options that exclude or require each other, checked before anything is loaded. Rules about a component's config belong to that
// component (its validate) and are also checked here if the options alone fill the config.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

void check_option_conflicts(const Options& options);  // throws UserError(usage)
// The rule that every reader of sharding settings needs: DeepSpeed's and FSDP's exclude each other.
void check_one_sharding(const Options& options);

}  // namespace hone::cli
