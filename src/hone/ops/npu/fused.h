// The operators of a decoder block on an NPU, each a single launch of a fused kernel. Shapes as in the operators' own headers.
#pragma once
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/chunk_attention.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/loss/cross_entropy_rows.h"

namespace hone::ops::npu {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);
Tensor rope(const Tensor& x, const RopeTable& table);
Tensor swiglu(const Tensor& gate, const Tensor& up);
std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up);

// Losses of rows of logits, and with `into_gradient` their gradients in place of the logits. Without label smoothing.
bool supports_cross_entropy(const Tensor& logits, double smoothing);
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, bool into_gradient);

// Causal attention over packed sequences, in the TND layout: lengths are passed from the host, so nothing synchronizes.
bool supports_attention(const Tensor& q, const AttentionShape& shape);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments, const AttentionShape& shape);

// From a chunk of queries to a chunk of keys, causal or all of them (attention/chunk_attention.h).
ChunkAttention chunk_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale);
ChunkGradients chunk_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const ChunkAttention& whole, bool causal, double scale);

}  // namespace hone::ops::npu
