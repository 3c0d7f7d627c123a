// Tokens drawn on the NPU: only their numbers come back to the host, not a row of logits each.
#pragma once
#include "hone/ops/choose_tokens.h"

namespace hone::ops::npu {

bool draws_tokens(const Tensor& logits_rv);
Tensor choose_tokens(const Tensor& logits_rv, const DrawSettings& draws);

}  // namespace hone::ops::npu
