#include "hone/ops/choose_tokens.h"

#include "hone/ops/cuda/choose_tokens.h"

namespace hone::ops {

bool can_choose_on(const Tensor& logits_rv, double temperature) { return temperature <= 0 || cuda::draws_tokens(logits_rv); }

Tensor choose_tokens(const Tensor& logits_rv, const DrawSettings& draws) {
  return cuda::draws_tokens(logits_rv) ? cuda::choose_tokens(logits_rv, draws) : logits_rv.argmax(1);
}

}  // namespace hone::ops
