// From options to the parallel layout of a run. The only code that reads options of sharding and launching.
#pragma once
#include <optional>

#include "hone/cli/options.h"
#include "hone/parallel/launch/supervisor.h"
#include "hone/parallel/sharding/sharding_config.h"
#include "hone/train/run.h"

namespace hone::cli {

// Fills job.parallel; a configuration with activation checkpointing enables it.
void read_parallel(const Options& options, train::TrainingJob& job);

// The sharding settings of DeepSpeed, FSDP or accelerate; none if there are no such settings.
std::optional<parallel::ShardingRequest> sharding_request(const Options& options);

// Whether they are DeepSpeed's, also inside accelerate's file.
bool asks_for_deepspeed(const Options& options);

// The processes to start on this node: from the environment, then accelerate's launch options and file. LLaMA-Factory starts one
// per visible device, or a single one with FORCE_TORCHRUN; called after the device is chosen, which makes NPUs visible.
parallel::LaunchConfig launch_of(const Options& options);
// LLaMA-Factory's USE_RAY=1.
bool uses_ray(const Options& options);

}  // namespace hone::cli
