// Tokens drawn on NVIDIA GPUs: the largest of logit / temperature + Gumbel noise, the noise a function of the row's key and the token.
#pragma once
#include "hone/ops/choose_tokens.h"

namespace hone::ops::cuda {

bool draws_tokens(const Tensor& logits_rv);
Tensor choose_tokens(const Tensor& logits_rv, const DrawSettings& draws);

}  // namespace hone::ops::cuda
