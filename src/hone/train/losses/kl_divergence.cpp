#include "hone/train/losses/kl_divergence.h"

#include "hone/model/memory/activation_checkpointing.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/train/losses/linear_divergence.h"

namespace hone::train {

Tensor kl_from_reference(model::CausalLM& reference, const Tensor& reference_hidden_th, const ForwardOutputs& outputs) {
  constexpr int64_t kLogitsAtOnce = int64_t{48} << 18;  // 48 MiB of float32 for each of the two
  auto& model = outputs.model;
  const auto& hidden_th = outputs.hidden_th;
  const auto labelled = (outputs.batch.targets_t != ops::kIgnoredTarget).nonzero().squeeze(1);
  const int64_t rows = std::max<int64_t>(1, kLogitsAtOnce / model.head().weight.size(0));
  const auto trained = trained_of_head(std::as_const(model).head());
  auto sum = at::zeros({}, hidden_th.options().dtype(at::kFloat));
  for (const auto& part : labelled.split(rows)) {
    auto measure = [&reference, &model, wanted = reference_hidden_th.index_select(0, part)](const Tensor& own) {
      Tensor target;
      {
        at::NoGradGuard no_grad;
        target = reference.logits(wanted).to(at::kFloat).log_softmax(1);
      }
      return TensorList{(target.exp() * (target - model.logits(own).to(at::kFloat).log_softmax(1))).sum()};
    };
    sum = sum + model::checkpoint(measure, hidden_th.index_select(0, part), trained).front();
  }
  return sum;
}

}  // namespace hone::train
