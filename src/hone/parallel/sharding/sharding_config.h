// Sharding of parameters, gradients and optimizer state over ranks: one description for ZeRO's stages and both versions of FSDP.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::parallel {

struct ShardingConfig {
  int stage = 0;                              // 0 nothing, 1 optimizer, 2 gradients too, 3 parameters too
  bool reshard_after_forward = true;          // stage 3: free a unit's weights between the passes
  bool prefetch = true;                       // stage 3: gather the next unit while this one computes
  bool offload_optimizer = false;             // its state is in host memory …
  double offload_fraction = 1;                // … for this fraction of the values
  bool offload_parameters = false;            // stage 3: shards are in host memory
  std::optional<at::ScalarType> reduce_type;  // of gradient reductions; float32 when unset
  int shard_size = 0;               // ranks that shard one replica; 0: all. Fewer make several replicas (hybrid sharding)
  int64_t bucket_bytes = 25 << 20;  // stage 0
  int64_t unit_size = 0;            // stage 3: minimum parameters of a unit; 0: blocks are the units

  std::string str() const;  // "parameters, gradients and optimizer sharded (ZeRO-3), each copy over 4 ranks"
};

// Settings from a configuration file of another program.
struct ShardingRequest {
  ShardingConfig sharding;
  bool hybrid_shard = false;                // each node keeps its own replica
  bool recompute = false;                   // activation checkpointing …
  bool offload_activations = false;         // … whose inputs wait in host memory
  std::vector<std::string> unknown;         // unknown keys, and which are known
  std::vector<std::string> without_effect;  // known keys that change nothing here
  std::vector<std::string> notes;           // such keys and why
  Json option_values = Json::object();      // settings that are also options of the run, under the options' names
};

// DeepSpeed's JSON; "auto" takes the run's value. Throws UserError(usage) for invalid values.
ShardingRequest read_deepspeed(const Json& config);
// ms-swift's names: zero0 … zero3, zero2_offload, zero3_offload. Null for another word.
Json deepspeed_preset(const std::string& name);

// `words` of --fsdp ("full_shard auto_wrap offload", "fsdp2"), and --fsdp_config or accelerate's fsdp_config, with or without
// "fsdp_" before each key.
ShardingRequest read_fsdp(const std::string& words, const Json& config);

}  // namespace hone::parallel
