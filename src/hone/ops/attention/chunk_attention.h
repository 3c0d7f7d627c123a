// Attention of a chunk of queries over a chunk of keys of the same sequence, with the log of every query's sum of exponentials:
// what ring attention computes step by step and merges. Shapes: q [queries, heads, head_dim], k and v [keys, kv_heads, head_dim].
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

// The positions of both chunks in their sequence. A query sees the keys up to its own position, of these the last `window` if
// that is set.
struct ChunkPair {
  int64_t first_query = 0, queries = 0, first_key = 0, keys = 0, window = 0;

  enum class Visible { nothing, everything, causal, some };
  Visible visible() const;
};

struct ChunkAttention {
  Tensor out;  // [queries, heads, head_dim]
  Tensor lse;  // float32 [heads, queries]; very negative where a query sees nothing
};
struct ChunkGradients {
  Tensor q, k, v;
};

// In float32, a tile of queries at a time. Oracle of the form below.
ChunkAttention chunk_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const ChunkPair& pair, double scale);
ChunkGradients chunk_attention_backward_plain(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                              const ChunkAttention& whole, const ChunkPair& pair, double scale);

// libtorch's flash kernels or torch_npu's where they serve. `whole` is the merged result over all chunks of keys, so that the
// gradients of the chunks add up to those of the sequence.
ChunkAttention chunk_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ChunkPair& pair, double scale);
ChunkGradients chunk_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const ChunkAttention& whole, const ChunkPair& pair, double scale);

}  // namespace hone::ops
