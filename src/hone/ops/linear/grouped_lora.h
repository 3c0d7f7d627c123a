// Adapters of several owners in one training batch: each adds its update to its own rows, and has its gradients from them alone.
#pragma once
#include "hone/ops/linear/multi_lora.h"

namespace hone::ops {

// scale * x A^T B^T of x [T, in] with each row's own A and B: [T, outputs] in the adapters' type, zero on rows whose adapter is
// not among `adapters`. Adapters of DoRA are not served.
Tensor grouped_lora_plain(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs);
// The same as one autograd node, each range's products straight into its rows of the result. Where a GPU computes bfloat16 and
// the ranks are equal: all ranges in one product, and the result in bfloat16.
Tensor grouped_lora(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs);

}  // namespace hone::ops
