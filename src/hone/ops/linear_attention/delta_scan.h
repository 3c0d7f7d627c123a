// The sequential part of the chunked gated delta rule: the states between chunks. Differentiable without `initial`.
#pragma once
#include "hone/ops/linear_attention/linear_attention_metadata.h"

namespace hone::ops {

// The terms of all chunks: N chunks of C positions in H heads, in the order of the metadata. Within a chunk,
//   values = u - w * state,  output = q * state + p * values,  next state = decay * state + transposed k * values.
struct ChunkTerms {
  Tensor q_nhck, k_nhck, w_nhck, u_nhcv, p_nhcc, decay_nh;
};

// -> outputs [N, H, C, value_dim]. `states`, if defined, has the states before the first chunks in the metadata's order of
// segments, [S, H, key_dim, value_dim], and gets those after the last ones; undefined: they are zero.
Tensor delta_scan(const ChunkTerms& terms, const LinearAttentionMetadata& metadata, const Tensor& states_shkv = {});

}  // namespace hone::ops
