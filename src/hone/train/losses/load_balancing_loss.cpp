#include "hone/train/losses/load_balancing_loss.h"

namespace hone::train {

Tensor load_balancing_loss(const TensorList& router_logits, int64_t per_token, at::Device device) {
  const int64_t experts = router_logits.front().size(1);
  const auto options = at::TensorOptions(at::kFloat).device(device);
  auto chosen_e = at::zeros({experts}, options), probability_e = at::zeros({experts}, options);
  int64_t rows = 0;
  for (const auto& logits_te : router_logits) {
    auto probabilities_te = at::softmax(logits_te, -1);
    auto choices = std::get<1>(probabilities_te.detach().topk(per_token, -1)).reshape({-1}).to(device);
    chosen_e.scatter_add_(0, choices, at::ones({choices.size(0)}, options));
    probability_e = probability_e + probabilities_te.to(at::kFloat).sum(0).to(device);
    rows += logits_te.size(0);
  }
  const auto count = static_cast<double>(rows);
  return (chosen_e / count * (probability_e / count)).sum() * static_cast<double>(experts);
}

}  // namespace hone::train
