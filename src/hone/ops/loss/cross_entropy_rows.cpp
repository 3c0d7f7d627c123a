#include "hone/ops/loss/cross_entropy_rows.h"

#include "hone/ops/cpu/cross_entropy.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

RowLosses by_tensors(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient) {
  int64_t vocabulary = logits.size(1);
  auto values = logits.to(at::kFloat);
  // On a GPU, rows without a target may fill up a batch: they have no loss and no gradient.
  const bool may_pad = targets.is_cuda();
  auto column = (may_pad ? targets.clamp_min(0) : targets).unsqueeze(1);
  auto normalizer = values.logsumexp(1, true);
  auto losses = normalizer - (1 - smoothing) * values.gather(1, column);
  if (smoothing > 0) losses.sub_(values.mean(1, true), smoothing);
  auto correct = (values.argmax(1) == targets).sum();
  auto row_weights = weights.defined() ? weights.unsqueeze(1) : at::ones_like(losses);
  if (may_pad) row_weights = row_weights * (targets != kIgnoredTarget).unsqueeze(1);
  if (into_gradient) {
    auto grad = values.sub_(normalizer).exp_();
    if (smoothing > 0) grad.sub_(smoothing / static_cast<double>(vocabulary));
    grad.scatter_add_(1, column, at::full_like(normalizer, smoothing - 1));
    if (weights.defined() || may_pad) grad.mul_(row_weights);
    if (!grad.is_same(logits)) logits.copy_(grad);
  }
  return {(losses * row_weights).sum(), correct};
}

}  // namespace

RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient) {
  if (npu::supports_cross_entropy(logits, smoothing)) return npu::cross_entropy_rows(logits, targets, weights, into_gradient);
  const bool on_gpu = cuda::supports_cross_entropy(logits, logits.size(1)) && logits.is_contiguous();
  if (!on_gpu && !cpu::supports(logits)) return by_tensors(logits, targets, weights, smoothing, into_gradient);
  auto losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  auto correct = at::empty({logits.size(0)}, targets.options());
  if (on_gpu)
    cuda::cross_entropy_rows(logits, targets, weights, smoothing, into_gradient, losses, correct);
  else
    cpu::cross_entropy_rows(logits, targets, weights, smoothing, into_gradient, losses, correct);
  return {losses.sum(), correct.sum()};
}

}  // namespace hone::ops
