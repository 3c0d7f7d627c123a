// The option --fsdp: words, or ms-swift's JSON of both fsdp and fsdp_config, inline or in a file.
#pragma once
#include "hone/cli/arguments/distributed.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::cli {

// For a run that has --fsdp. Throws UserError(usage).
parallel::ShardingRequest fsdp_request(const DistributedArguments& args);

}  // namespace hone::cli
