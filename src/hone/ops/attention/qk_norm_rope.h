// Queries and keys of models that normalize each head: RMSNorm, then rotary embedding.
#pragma once
#include "hone/ops/attention/rope.h"

namespace hone::ops {

// RMSNorm of each head of queries and keys, for models that have it; undefined weights: none.
struct QkNorm {
  Tensor q, k;
  double eps = 1e-6;
};

struct QueriesKeysValues {
  Tensor q, k, v;  // [T, heads * head_dim]
};

// Values pass unchanged. On a GPU one node whose gradients are column slices of one tensor, as joint_linear.h requires them.
QueriesKeysValues qk_norm_rope_plain(const QueriesKeysValues& heads, const QkNorm& norms, const RopeTable& table);
QueriesKeysValues qk_norm_rope(const QueriesKeysValues& heads, const QkNorm& norms, const RopeTable& table);

}  // namespace hone::ops
