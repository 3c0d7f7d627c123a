// Megatron's options of optimizers.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/cli/megatron/given_options.h"

namespace hone::cli {

bool is_megatron_optimizer_option(std::string_view name);

// Adds `optim`, `optim_args` and what follows from them to the options of `swift`. `given`: the options above, by name. Throws
// UserError(usage) for an unknown optimizer.
void add_megatron_optimizer(const std::map<std::string, GivenOption>& given, std::vector<GivenOption>& made);

}  // namespace hone::cli
