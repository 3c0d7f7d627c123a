// From options to how a run is spread over processes. The only code that reads options of sharding and launching.
#pragma once
#include <map>

#include "hone/cli/options.h"
#include "hone/parallel/launch/supervisor.h"
#include "hone/parallel/sharding/sharding_config.h"
#include "hone/train/run.h"

namespace hone::cli {

// Fills job.parallel; a configuration with activation checkpointing enables it.
void read_parallel(const Options& options, train::TrainingJob& job);

// accelerate's setting of precision: bf16, fp16, or "" for none. It applies if the run itself sets neither.
std::string launched_precision(const Options& options);
bool launched_on_cpu(const Options& options);

// What DeepSpeed's, FSDP's or accelerate's settings ask to be sharded; none when there are no such settings.
std::optional<parallel::ShardingRequest> sharding_request(const Options& options);

// Whether they are DeepSpeed's, be it in accelerate's file.
bool asks_for_deepspeed(const Options& options);

// What accelerate's launch line and file say about processes, under the names that the environment has for it: NPROC_PER_NODE …
std::map<std::string, std::string> accelerate_launch(const Options& options);

// What to start on this node: the environment's word, then accelerate's launch line and file. LLaMA-Factory starts a process for
// each visible device, or one when FORCE_TORCHRUN is set; called after the device was chosen, which makes NPUs visible.
parallel::LaunchConfig launch_of(const Options& options);
// LLaMA-Factory's USE_RAY=1.
bool uses_ray(const Options& options);

}  // namespace hone::cli
