// The settings of `accelerate launch`: its options, which take precedence, and its config file.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "hone/cli/arguments/distributed.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::cli {

// Its FSDP or DeepSpeed settings; none if there are no such settings.
std::optional<parallel::ShardingRequest> accelerate_sharding(const DistributedArguments& args);
bool accelerate_launches_deepspeed(const DistributedArguments& args);

// parallelism_config: the run's own, else that of the config file, where every key repeats the name.
Json accelerate_parallelism(const DistributedArguments& args);

// Its process settings under the names of environment variables: NPROC_PER_NODE …
std::map<std::string, std::string> accelerate_launch(const Options& options);
int launched_processes(const Options& options);  // of all machines; 0: accelerate does not say

// Its precision: bf16, fp16, or "" for none. It applies if the run itself sets neither.
std::string launched_precision(const Options& options);
bool launched_on_cpu(const Options& options);

}  // namespace hone::cli
