#include "hone/train/losses/decision.h"

#include "hone/model/pooling.h"

namespace hone::train {
namespace {

// Ranked probability score: squared differences of the cumulative distributions.
Tensor ranked_gaps(const Tensor& shares_o, const Tensor& wanted_o) { return (shares_o.cumsum(0) - wanted_o.cumsum(0)).square(); }

}  // namespace

int64_t first_option(data::QuestionKind kind) {
  constexpr int64_t kFirst[] = {0, 8, 2};  // false and true; A to P; 0 to 5
  return kFirst[static_cast<size_t>(kind)];
}

data::PayloadCollator DecisionPayload::collator() {
  return [](const std::vector<const data::Sample*>& sequences) {
    auto payload = std::make_shared<DecisionPayload>();
    for (const auto* sample : sequences)
      payload->questions.push_back({sample->question.value(), at::tensor(sample->sequence_labels)});
    return payload;
  };
}

std::vector<Tensor*> DecisionPayload::tensors() {
  std::vector<Tensor*> list;
  for (auto& question : questions) list.push_back(&question.shares_o);
  return list;
}

double DecisionLoss::num_items(const data::Batch& batch) const { return static_cast<double>(batch.segments.count()); }

Tensor DecisionLoss::question_loss(const Tensor& scores_o, const Tensor& wanted_o, bool ordered) const {
  const bool smooths = config_.loss == "smooth_brier";
  const auto options = static_cast<double>(scores_o.numel());
  auto shares = scores_o.softmax(0);
  auto target = smooths ? wanted_o * (1 - config_.smoothing) + config_.smoothing / options : wanted_o;
  auto loss = -(target * shares.clamp_min(1e-9).log()).sum();
  if (smooths) return loss + config_.brier_weight * (shares - wanted_o).square().sum() / options;
  if (!ordered || config_.loss == "scoring") return loss;
  auto gaps = ranked_gaps(shares, wanted_o);
  if (config_.loss == "ce_rps") return loss + config_.ordered_weight * gaps.sum();
  return loss + 0.5 * gaps.slice(0, 0, -1).sum() / std::max(options - 1, 1.0);
}

LossSum DecisionLoss::loss(const ForwardOutputs& outputs, const DecisionPayload& payload) {
  auto logps_sv = model::token_logps(outputs.model, outputs.last_token_states(), config_.option_tokens);
  LossSum result{logps_sv.narrow(0, 0, 0).sum(), {}};
  auto right = at::zeros({}, logps_sv.options().requires_grad(false));
  for (int64_t i = 0; i < outputs.batch.segments.count(); ++i) {
    const auto& [kind, wanted] = payload.questions[static_cast<size_t>(i)];
    auto scores = logps_sv[i].narrow(0, first_option(kind), wanted.numel());
    result.sum = result.sum + question_loss(scores, wanted, kind == data::QuestionKind::score);
    right += (scores.detach().argmax() == wanted.argmax()).to(right.scalar_type());
  }
  result.metrics.push_back({"acc", right, num_items(outputs.batch)});
  return result;
}

}  // namespace hone::train
