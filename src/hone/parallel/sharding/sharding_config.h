// What is sharded over the ranks, and how: one description for ZeRO's stages and both versions of FSDP.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::parallel {

struct ShardingConfig {
  int stage = 0;                              // 0 nothing, 1 optimizer, 2 gradients too, 3 parameters too
  bool reshard_after_forward = true;          // stage 3: give a part's weights back between the passes
  bool prefetch = true;                       // stage 3: fetch the next part while this one computes
  bool offload_optimizer = false;             // its state is in host memory …
  double offload_fraction = 1;                // … that of this share of the values
  bool offload_parameters = false;            // stage 3: shards rest in host memory
  std::optional<at::ScalarType> reduce_type;  // of gradients on their way; float32 when unset
  int shard_size = 0;                         // ranks that share one copy; 0: all. Fewer make several copies (hybrid sharding)
  int64_t bucket_bytes = 25 << 20;            // stage 0
  int64_t unit_size = 0;                      // stage 3: modules of so many parameters are gathered as one; 0: blocks are

  std::string str() const;  // "parameters, gradients and optimizer sharded (ZeRO-3), each copy over 4 ranks"
};

// What a configuration file of another program asks for.
struct ShardingRequest {
  ShardingConfig sharding;
  bool hybrid_shard = false;            // each node keeps a copy of its own
  bool recompute = false;               // activation checkpointing …
  bool offload_activations = false;     // … whose inputs wait in host memory
  std::vector<std::string> unknown;     // keys nobody knows
  std::vector<std::string> notes;       // keys that are known and change nothing here, with the reason
  Json option_values = Json::object();  // settings that are also options of the run, under the options' names
};

// DeepSpeed's JSON; "auto" is what the run says. Throws UserError(usage) for values that make no sense.
ShardingRequest read_deepspeed(const Json& config);
// ms-swift's names: zero0 … zero3, zero2_offload, zero3_offload. Null for another word.
Json deepspeed_preset(const std::string& name);

// `words` of --fsdp ("full_shard auto_wrap offload", "fsdp2"), and --fsdp_config or accelerate's fsdp_config, with or without
// "fsdp_" before each key.
ShardingRequest read_fsdp(const std::string& words, const Json& config);

}  // namespace hone::parallel
