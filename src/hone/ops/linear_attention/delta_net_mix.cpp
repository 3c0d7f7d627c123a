#include "hone/ops/linear_attention/delta_net_mix.h"

#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/linear_attention/causal_conv1d.h"
#include "hone/ops/linear_attention/gated_rms_norm.h"

namespace hone::ops {

Tensor delta_net_mix_plain(const DeltaNetRows& rows, const DeltaNetWeights& weights, const LinearAttentionMetadata& metadata,
                           const StateSlots* states) {
  const auto& [qkv_tc, z_thv, b_th, a_th] = rows;
  const int64_t count = qkv_tc.size(0), keys = weights.key_heads * weights.key_dim, value_heads = z_thv.size(1);
  const auto mixed_tc = causal_conv1d_silu(qkv_tc, weights.conv, metadata, states);
  auto heads = [&](const Tensor& part, int64_t number) { return part.reshape({count, number, -1}); };
  const auto parts = mixed_tc.split_with_sizes({keys, keys, value_heads * z_thv.size(2)}, 1);
  const auto log_decay_th = -weights.a_log.to(at::kFloat).exp() * at::softplus(a_th.to(at::kFloat) + weights.dt_bias);
  const auto y_thv = gated_delta_rule({heads(parts[0], weights.key_heads), heads(parts[1], weights.key_heads),
                                       heads(parts[2], value_heads), log_decay_th, at::sigmoid(b_th)},
                                      metadata, states);
  return gated_rms_norm(y_thv, z_thv, weights.norm, weights.eps).view({count, -1});
}

Tensor delta_net_mix(const DeltaNetRows& rows, const DeltaNetWeights& weights, const LinearAttentionMetadata& metadata,
                     const StateSlots* states) {
  if (!states || metadata.steps == 0) return delta_net_mix_plain(rows, weights, metadata, states);
  const cuda::DeltaStep step{.qkv_bc = rows.qkv_tc,
                             .z_bhv = rows.z_thv,
                             .b_bh = rows.b_th,
                             .a_bh = rows.a_th,
                             .conv = weights.conv,
                             .dt_bias = weights.dt_bias,
                             .a_log = weights.a_log,
                             .norm = weights.norm,
                             .conv_sck = states->state->conv_sck,
                             .recurrent_shkv = states->state->recurrent_shkv,
                             .slots_b = states->slots_s,
                             .key_heads = weights.key_heads,
                             .eps = weights.eps};
  const bool is_step = metadata.steps == rows.qkv_tc.size(0) && !at::GradMode::is_enabled() && cuda::supports_delta_step(step);
  return is_step ? cuda::delta_step(step) : delta_net_mix_plain(rows, weights, metadata, states);
}

}  // namespace hone::ops
