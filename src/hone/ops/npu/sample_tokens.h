// Samples tokens on the NPU: only token ids are copied to the host, not a row of logits each.
#pragma once
#include "hone/ops/sample_tokens.h"

namespace hone::ops::npu {

bool supports_sampling(const Tensor& logits_rv);
Tensor sample_tokens(const Tensor& logits_rv, const SamplingTensors& draws);

}  // namespace hone::ops::npu
