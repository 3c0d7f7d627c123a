#include "hone/ops/choose_tokens.h"

#include "hone/ops/cuda/choose_tokens.h"
#include "hone/ops/npu/choose_tokens.h"

namespace hone::ops {

bool can_choose_on(const Tensor& logits_rv, double temperature) {
  return temperature <= 0 || cuda::draws_tokens(logits_rv) || npu::draws_tokens(logits_rv);
}

bool can_filter_on(const Tensor& logits_rv) { return npu::draws_tokens(logits_rv); }

Tensor choose_tokens(const Tensor& logits_rv, const DrawSettings& draws) {
  if (cuda::draws_tokens(logits_rv)) return cuda::choose_tokens(logits_rv, draws);
  return npu::draws_tokens(logits_rv) ? npu::choose_tokens(logits_rv, draws) : logits_rv.argmax(1);
}

Tensor top_k_top_p_plain(const Tensor& logits_rv, const Tensor& k, const Tensor& p) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  auto [sorted, order] = logits_rv.sort(1, /*descending=*/true);
  auto rank = at::arange(logits_rv.size(1), k.options()).unsqueeze(0), limit = k.unsqueeze(1);
  auto beyond = (rank >= limit).logical_and(limit > 0);
  auto probabilities = sorted.masked_fill(beyond, kNever).softmax(1);
  auto before = probabilities.cumsum(1) - probabilities;
  auto hidden = beyond.logical_or((before >= p.unsqueeze(1)).logical_and(rank > 0));
  return at::empty_like(sorted).scatter_(1, order, sorted.masked_fill(hidden, kNever));
}

}  // namespace hone::ops
