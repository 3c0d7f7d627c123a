// Several adapters in one training batch: each adds its update to its own rows and receives gradients only from them.
#pragma once
#include "hone/ops/linear/multi_lora.h"

namespace hone::ops {

// scale * x A^T B^T of x [T, in] with each row's own A and B: [T, outputs] in the adapters' type, zero on rows whose adapter is
// not among `adapters`. Ranges are in order, and ranks may differ. Adapters of DoRA are not supported.
Tensor grouped_lora_plain(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs);
// The same as one autograd node, each range's products straight into its rows of the result. Where a GPU computes bfloat16 it is
// padded_grouped_lora.
Tensor grouped_lora(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs);
// y, which nothing else reads, plus the same, with gradients of the factors added to their `grad` by the backward pass itself:
// autograd has one node per layer instead of one per factor. Where this is not supported, autograd accumulates them.
Tensor add_accumulating_grouped_lora(const Tensor& y, const Tensor& x, const std::vector<LoraWeights>& adapters,
                                     const LoraMapping& rows);
// Whether it supports a factor with this gradient: defined, contiguous, float32 on the CPU.
bool accumulates_in_place(const Tensor& gradient);
// All ranges in one grouped product, in x's type: ranks are padded with zeros to a common multiple of 8, and rows of no adapter
// have one of zeros.
Tensor padded_grouped_lora(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs);

}  // namespace hone::ops
