#include "hone/train/losses/token_logps.h"

#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone::train {

namespace {

// Calls look(rows, their logits in float32) for all positions with a target, a few at a time.
template <class Look>
void for_labelled_logits(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t, Look look) {
  constexpr int64_t kLogitsAtOnce = int64_t{96} << 18;  // 96 MiB of float32
  auto labelled = (targets_t != ops::kIgnoredTarget).nonzero().squeeze(1);
  int64_t vocabulary = model.head().weight.size(0), rows = std::max<int64_t>(1, kLogitsAtOnce / vocabulary);
  for (const auto& part : labelled.split(rows)) look(part, model.logits(hidden_th.index_select(0, part)).to(at::kFloat));
}

}  // namespace

TokenScores token_scores(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t) {
  at::NoGradGuard no_grad;
  TokenScores scores{at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat)),
                     at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kBool))};
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto targets = targets_t.index_select(0, part).unsqueeze(1);
    scores.logps_t.index_copy_(0, part, (logits.gather(1, targets) - logits.logsumexp(1, true)).squeeze(1));
    scores.hits_t.index_copy_(0, part, (logits.argmax(1, true) == targets).squeeze(1));
  });
  return scores;
}

Tensor top_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t) {
  constexpr int64_t kLikeliest = 20;
  at::NoGradGuard no_grad;
  auto entropies_t = at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat));
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto logps = std::get<0>(logits.topk(std::min(kLikeliest, logits.size(1)), 1)).log_softmax(1);
    entropies_t.index_copy_(0, part, -(logps.exp() * logps).sum(1));
  });
  return entropies_t;
}

Tensor token_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t, double scale) {
  at::NoGradGuard no_grad;
  auto entropies_t = at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat));
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto logps = (logits * scale).log_softmax(1);
    entropies_t.index_copy_(0, part, -(logps.exp() * logps).sum(1));
  });
  return entropies_t;
}

}  // namespace hone::train
