#include "hone/train/losses/token_logps.h"

#include "hone/ops/linear_cross_entropy.h"

namespace hone::train {

TokenScores token_scores(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t) {
  constexpr int64_t kLogitsAtOnce = int64_t{96} << 18;  // 96 MiB of float32
  at::NoGradGuard no_grad;
  auto labelled = (targets_t != ops::kIgnoredTarget).nonzero().squeeze(1);
  TokenScores scores{at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat)),
                     at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kBool))};
  int64_t vocabulary = model.head().weight.size(0), rows = std::max<int64_t>(1, kLogitsAtOnce / vocabulary);
  for (const auto& part : labelled.split(rows)) {
    auto logits = model.logits(hidden_th.index_select(0, part)).to(at::kFloat);
    auto targets = targets_t.index_select(0, part).unsqueeze(1);
    scores.logps_t.index_copy_(0, part, (logits.gather(1, targets) - logits.logsumexp(1, true)).squeeze(1));
    scores.hits_t.index_copy_(0, part, (logits.argmax(1, true) == targets).squeeze(1));
  }
  return scores;
}

}  // namespace hone::train
