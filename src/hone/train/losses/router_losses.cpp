#include "hone/train/losses/router_losses.h"

#include <algorithm>
#include <iterator>

#include "hone/base/fault_injection.h"
#include "hone/model/decoder.h"
#include "hone/parallel/sequence_parallel.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

// The tokens that a loss is about: those of this rank, and sums over all ranks that split a sequence.
class RoutedTokens {
 public:
  RoutedTokens() = default;
  RoutedTokens(const ForwardOutputs& outputs, const SplitPass& split) : sequence_(split.sequence) {
    if (!sequence_) return;
    const auto& offsets = outputs.batch.segments.offsets;
    count_ = offsets[static_cast<size_t>(split.sequences)];
    if (count_ < offsets.back()) rows_r_ = (sequence_->positions(offsets.back()) < count_).nonzero().squeeze(1);
  }

  Tensor of(const Tensor& logits_te) const {
    return rows_r_.defined() ? logits_te.index_select(0, rows_r_.to(logits_te.device())) : logits_te;
  }
  // On all ranks.
  double count(const TensorList& router_logits) const {
    return static_cast<double>(sequence_ ? count_ : router_logits.front().size(0));
  }
  // With the gradients of this rank's tokens.
  Tensor total(const Tensor& own) const {
    if (!sequence_ || fault("sequence_parallel.router")) return own;
    auto others = own.detach().clone();
    sequence_->all_reduce(others);
    return own + (others - own.detach());
  }

 private:
  const parallel::SequenceParallel* sequence_ = nullptr;
  Tensor rows_r_;  // undefined: all rows count
  int64_t count_ = 0;
};

// Summed over layers, as Megatron adds it.
Tensor router_z_loss(const TensorList& router_logits, const RoutedTokens& tokens, at::Device device) {
  auto sum = at::zeros({}, at::TensorOptions(at::kFloat).device(device));
  for (const auto& logits_te : router_logits)
    sum = sum + tokens.of(logits_te).to(at::kFloat).logsumexp(-1).square().sum().to(device);
  return tokens.total(sum) / tokens.count(router_logits);
}

Tensor balance_loss(const TensorList& router_logits, const RoutedTokens& tokens, int64_t per_token, at::Device device) {
  const int64_t experts = router_logits.front().size(1);
  const auto options = at::TensorOptions(at::kFloat).device(device);
  auto chosen_e = at::zeros({experts}, options), probability_e = at::zeros({experts}, options);
  for (const auto& logits_te : router_logits) {
    auto probabilities_te = at::softmax(tokens.of(logits_te), -1);
    auto choices = std::get<1>(probabilities_te.detach().topk(per_token, -1)).reshape({-1}).to(device);
    chosen_e.scatter_add_(0, choices, at::ones({choices.size(0)}, options));
    probability_e = probability_e + probabilities_te.to(at::kFloat).sum(0).to(device);
  }
  const auto total_2e = tokens.total(at::stack({chosen_e, probability_e}));
  const double rows = tokens.count(router_logits) * static_cast<double>(router_logits.size());
  return (total_2e[0] / rows * (total_2e[1] / rows)).sum() * static_cast<double>(experts);
}

// The same value on several ranks whose gradients are summed: each contributes its share.
Tensor shared_by(const Tensor& value, int64_t ranks) {
  const double share = 1 / static_cast<double>(ranks);
  return value * share + value.detach() * (1 - share);
}

}  // namespace

Tensor load_balancing_loss(const TensorList& router_logits, int64_t per_token, at::Device device) {
  return balance_loss(router_logits, RoutedTokens(), per_token, device);
}

void add_router_losses(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config, double items,
                       const SplitPass& split) {
  const auto& logits = outputs.router_logits;
  if (logits.empty() || !config.any()) return;
  const RoutedTokens tokens(outputs, split);
  const auto* region = outputs.model.decoder().region;
  auto add = [&](const char* name, const Tensor& loss, double coefficient, double shown) {
    result.sum = result.sum + (region ? shared_by(loss, region->ranks()) : loss) * (coefficient * items);
    result.metrics.push_back({name, loss.detach() * shown, 1});
  };
  const auto device = result.sum.device();
  if (config.balance > 0)
    add("aux_loss", balance_loss(logits, tokens, outputs.model.config().experts.num_experts_per_tok, device), config.balance, 1);
  if (config.z > 0) add("z_loss", router_z_loss(logits, tokens, device), config.z, 1 / static_cast<double>(logits.size()));
}

void add_router_losses_per_target(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config,
                                  const parallel::SequenceParallel* sequence) {
  if (outputs.router_logits.empty()) return;
  const auto own = static_cast<double>(outputs.batch.target_count);
  if (!sequence) return add_router_losses(result, outputs, config, own);
  const auto sequences = static_cast<int64_t>(outputs.batch.channels.size());  // padding has none
  auto targets = at::full({}, own, result.sum.options().requires_grad(false));
  sequence->all_reduce(targets);
  LossSum losses{at::zeros_like(targets), {}};
  add_router_losses(losses, outputs, config, 1, {sequence, sequences});
  losses.sum = losses.sum * targets;
  count_once(losses, sequence);
  result.sum = result.sum + losses.sum;
  std::ranges::move(losses.metrics, std::back_inserter(result.metrics));
}

}  // namespace hone::train
