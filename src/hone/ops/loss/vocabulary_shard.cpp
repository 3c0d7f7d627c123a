#include "hone/ops/loss/vocabulary_shard.h"

#include "hone/ops/loss/cross_entropy_rows.h"

namespace hone::ops {

// With z = logits - max over all ranks, the loss of a row is log(sum of exp z) - z[target].
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                             const VocabularyShard& shard) {
  const int64_t here = logits.size(1);
  const auto words = static_cast<double>(shard.words);
  auto scores = logits.to(at::kFloat);
  auto largest = scores.amax(1);
  shard.all_reduce_max(largest);
  scores = scores - largest.unsqueeze(1);
  auto place = targets - shard.begin;
  const auto foreign = (place < 0).logical_or(place >= here);
  place = place.clamp(0, here - 1).unsqueeze(1);
  auto powers = scores.exp();
  // The target's logit (0 if another rank has it), the sum of exponentials, and the sum that label smoothing needs.
  auto sums = at::stack({scores.gather(1, place).squeeze(1).masked_fill(foreign, 0), powers.sum(1),
                         smoothing > 0 ? scores.sum(1) : at::zeros_like(largest)});
  shard.all_reduce_sum(sums);
  const auto log_total = sums[1].log();
  auto losses = log_total - (1 - smoothing) * sums[0] - smoothing / words * sums[2];
  RowLosses found{(weights.defined() ? losses * weights : losses).sum(), sums[0].eq(0).sum()};
  if (!into_gradient) return found;
  powers.div_(sums[1].unsqueeze(1));
  if (smoothing > 0) powers.sub_(smoothing / words);
  powers.scatter_add_(1, place, foreign.logical_not().to(at::kFloat).mul_(smoothing - 1).unsqueeze(1));
  if (weights.defined()) powers.mul_(weights.unsqueeze(1));
  logits = powers.to(logits.scalar_type());
  return found;
}

}  // namespace hone::ops
