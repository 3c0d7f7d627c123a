// Rows of RoPE: every head of a token rotated by its position's angles, or back.
#pragma once
#include "hone/ops/attention/qk_norm_rope.h"

namespace hone::ops::cpu {

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction, Tensor& y);

// Queries, keys and values of a joint projection, [T, (heads + 2 kv_heads) * head_dim], the former two normalized, if there are
// weights, and rotated. Weights have the type of qkv.
QueriesKeysValues split_qkv(const Tensor& qkv, const QkNorm& norms, const RopeTable& table, int64_t heads, int64_t kv_heads);

}  // namespace hone::ops::cpu
