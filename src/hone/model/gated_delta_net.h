// The layer of linear attention that Qwen3-Next and Qwen3.5 have in most blocks in place of attention.
#pragma once
#include "hone/model/config.h"
#include "hone/model/module.h"
#include "hone/ops/linear_attention/linear_attention_metadata.h"
#include "hone/ops/linear_attention/recurrent_state.h"

namespace hone::model {

struct GatedDeltaNet {
  std::string name;                 // "model.layers.0.linear_attn"
  std::vector<Linear> projections;  // qkvz and ba, or qkv, z, b and a
  Parameter conv;                   // [channels, 1, kernel]
  Parameter dt_bias, a_log;         // [value heads]: of the decay
  Norm norm;                        // of each value head, before the gate z
  Linear out;
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;

  Module module();
  // What the output projection reads, [T, value heads * value_dim]. `states`, in inference, are continued and updated.
  Tensor mix(const Tensor& x_th, const LinearContext& mode, const ops::LinearAttentionMetadata& metadata,
             const ops::StateSlots* states) const;

 private:
  struct Projected {
    Tensor qkv_tc, z_thv, b_th, a_th;
  };
  Projected project(const Tensor& x_th, const LinearContext& mode) const;
};

// Shapes without weights; `prefix` is the block's name and a dot.
GatedDeltaNet gated_delta_net_skeleton(const DecoderConfig& config, const std::string& prefix);

// Random values for a new model, as transformers initializes them, for the parameters that are no matrices; undefined: another
// parameter.
Tensor initial_delta_net_value(const std::string& parameter, at::IntArrayRef sizes, const DecoderConfig& config,
                               const at::Generator& generator);

}  // namespace hone::model
