#include "hone/train/losses/router_losses.h"

#include "hone/model/decoder.h"

namespace hone::train {
namespace {

// Summed over layers, as Megatron adds it.
Tensor router_z_loss(const TensorList& router_logits, at::Device device) {
  auto sum = at::zeros({}, at::TensorOptions(at::kFloat).device(device));
  for (const auto& logits_te : router_logits) sum = sum + logits_te.to(at::kFloat).logsumexp(-1).square().mean().to(device);
  return sum;
}

// The same value on several ranks whose gradients are summed: each contributes its share.
Tensor shared_by(const Tensor& value, int64_t ranks) {
  const double share = 1 / static_cast<double>(ranks);
  return value * share + value.detach() * (1 - share);
}

}  // namespace

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

void add_router_losses(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config, double items) {
  const auto& logits = outputs.router_logits;
  if (logits.empty()) return;
  const auto* region = outputs.model.decoder().region;
  auto add = [&](const char* name, const Tensor& loss, double coefficient, double shown) {
    result.sum = result.sum + (region ? shared_by(loss, region->ranks()) : loss) * (coefficient * items);
    result.metrics.push_back({name, loss.detach() * shown, 1});
  };
  const auto device = result.sum.device();
  if (config.balance > 0)
    add("aux_loss", load_balancing_loss(logits, outputs.model.config().experts.num_experts_per_tok, device), config.balance, 1);
  if (config.z > 0) add("z_loss", router_z_loss(logits, device), config.z, 1 / static_cast<double>(logits.size()));
}

}  // namespace hone::train
