// Causal attention inside each sequence of a packed row. Shapes: q [T, heads * head_dim], k and v [T, kv_heads * head_dim].
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/segments.h"

namespace hone::ops {

struct AttentionShape {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1.0;
  int64_t window = 0;  // a position sees itself and window - 1 before it; 0: everything before it
};

// What every layer of a forward pass shares: boundaries on the host, and on the device where its kernels read them.
struct AttentionPlan {
  Segments segments;
  Tensor offsets;  // int32 [count + 1] on an accelerator, undefined on the CPU
};
AttentionPlan attention_plan(const Segments& segments, at::Device device);

// The definition: scores of every pair, masked, in float32. Oracle of the other paths.
Tensor attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan, const AttentionShape& shape);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan, const AttentionShape& shape);

// Inference: segment i of q continues sequence rows[i] of the cache, whose keys and values [sequences, capacity, kv_heads, head_dim]
// already hold the segment's own; lengths[i] counts them all.
struct CachedKeys {
  Tensor keys, values;
  std::vector<int64_t> rows, lengths;
};
Tensor attention_cached(const Tensor& q, const CachedKeys& cache, const AttentionPlan& plan, const AttentionShape& shape);

}  // namespace hone::ops
