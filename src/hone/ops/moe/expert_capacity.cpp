#include "hone/ops/moe/expert_capacity.h"

#include <algorithm>
#include <cmath>

namespace hone::ops {

int64_t expert_capacity(const Tensor& experts_tk, int64_t experts, double factor) {
  const double even = static_cast<double>(experts_tk.numel()) / static_cast<double>(experts);
  return std::min(static_cast<int64_t>(std::ceil(even * factor)), experts_tk.size(0));
}

TopKRouting drop_tokens(const TopKRouting& choice, int64_t experts, const ExpertCapacity& capacity) {
  at::NoGradGuard no_grad;
  const auto& experts_tk = choice.experts_tk;
  const auto weights_tk = choice.weights_tk.detach();
  auto rank_te = at::zeros({experts_tk.size(0), experts}, weights_tk.options());
  rank_te.scatter_(1, experts_tk, capacity.by_position ? at::ones_like(weights_tk) : weights_tk);
  const auto order_te = std::get<1>(at::sort(rank_te, /*stable=*/true, /*dim=*/0, /*descending=*/true));
  auto kept_te = at::zeros_like(rank_te, at::kBool);
  kept_te.scatter_(0, order_te.narrow(0, 0, expert_capacity(experts_tk, experts, capacity.factor)), true);
  return {at::where(kept_te.gather(1, experts_tk), experts_tk, experts), choice.weights_tk, /*drops=*/true};
}

}  // namespace hone::ops
