// Samples tokens on NVIDIA GPUs: the maximum of logit / temperature + Gumbel noise, which is a function of the row's key and the
// token.
#pragma once
#include "hone/ops/sample_tokens.h"

namespace hone::ops::cuda {

bool supports_sampling(const Tensor& logits_rv);
Tensor sample_tokens(const Tensor& logits_rv, const SamplingTensors& draws);

}  // namespace hone::ops::cuda
