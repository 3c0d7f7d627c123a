// A gated delta net between its projections: convolution, SiLU, the gated delta rule, and the gated norm of its output.
#pragma once
#include "hone/ops/linear_attention/gated_delta_rule.h"

namespace hone::ops {

struct DeltaNetRows {
  Tensor qkv_tc, z_thv, b_th, a_th;  // the projections of T rows
};
struct DeltaNetWeights {
  Tensor conv, dt_bias, a_log, norm;  // [channels, 1, kernel], twice [value_heads], [value_dim]
  double eps = 0;
  int64_t key_heads = 0, key_dim = 0;
};

// -> [T, value_heads * value_dim] of the rows' type. `states`, in inference, are continued and updated. On a GPU a pass of
// decodes is one kernel, which a graph can capture: rows whose slot is -1 then give zeros and change no slot.
Tensor delta_net_mix_plain(const DeltaNetRows& rows, const DeltaNetWeights& weights, const LinearAttentionMetadata& metadata,
                           const StateSlots* states);
Tensor delta_net_mix(const DeltaNetRows& rows, const DeltaNetWeights& weights, const LinearAttentionMetadata& metadata,
                     const StateSlots* states);

}  // namespace hone::ops
