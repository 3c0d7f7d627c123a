#include "hone/tinker/model/expert_balance.h"

#include "hone/ops/moe/moe_permute.h"

namespace hone::tinker {

void ExpertBalance::add(const TensorList& router_logits, int64_t per_token, int64_t begin, int64_t count) {
  if (router_logits.empty()) return;
  at::NoGradGuard no_grad;
  TensorList layers;
  for (const auto& logits_te : router_logits) {
    const auto choices = std::get<1>(logits_te.narrow(0, begin, count).topk(per_token, -1));
    layers.push_back(ops::tokens_per_expert(choices, logits_te.size(1)));
  }
  const auto counts_le = at::stack(layers);
  counts_le_ = counts_le_.defined() ? counts_le_ + counts_le : counts_le;
}

// Relative to an even distribution; a mean or a maximum over the layers.
std::map<std::string, double> ExpertBalance::metrics() const {
  if (!counts_le_.defined()) return {};
  const auto counts_le = counts_le_.to(at::kCPU, at::kDouble);
  const auto even_l1 = counts_le.mean(1, /*keepdim=*/true);
  const auto violation_le = (counts_le - even_l1) / even_l1;
  const auto mean_of = [](const Tensor& values) { return values.to(at::kDouble).mean().item<double>(); };
  const auto largest_l = violation_le.amax(1);
  return {{"e_frac_with_tokens:mean", mean_of(counts_le > 0)},
          {"e_frac_oversubscribed:mean", mean_of(counts_le > even_l1)},
          {"e_max_violation:mean", mean_of(largest_l)},
          {"e_max_violation:max", largest_l.max().item<double>()},
          {"e_min_violation:mean", mean_of(violation_le.amin(1))}};
}

}  // namespace hone::tinker
