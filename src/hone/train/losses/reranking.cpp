#include "hone/train/losses/reranking.h"

#include <cmath>

#include "hone/model/pooling.h"

namespace hone::train {
namespace {

// The rank of the relevant candidate among those of its query: 1/rank, and its discounted gain.
std::vector<Metric> ranks(const Tensor& scores_s, const std::vector<std::pair<int64_t, int64_t>>& questions) {
  double reciprocal = 0, gain = 0, ranked = 0;
  auto scores = scores_s.detach().to(at::kCPU);
  for (auto [begin, end] : questions) {
    if (end - begin < 2) continue;
    double above = (scores.narrow(0, begin + 1, end - begin - 1) > scores[begin]).sum().item<double>();
    reciprocal += 1 / (above + 1);
    gain += 1 / std::log2(above + 2);
    ranked += 1;
  }
  auto value = [&](double number) { return at::full({}, number, scores_s.options().requires_grad(false)); };
  return {{"mrr", value(reciprocal), ranked}, {"ndcg", value(gain), ranked}};
}

}  // namespace

data::PayloadCollator RerankingPayload::collator() {
  return [](const std::vector<const data::Sample*>& candidates) {
    auto payload = std::make_shared<RerankingPayload>();
    std::vector<float> relevances;
    for (const auto* candidate : candidates) {
      const auto at = static_cast<int64_t>(relevances.size());
      relevances.push_back(candidate->sequence_labels.at(0));
      if (relevances.back() == 1.0f)
        payload->questions.emplace_back(at, at + 1);
      else if (!payload->questions.empty())
        payload->questions.back().second = at + 1;
    }
    payload->relevances_s = at::tensor(relevances);
    return payload;
  };
}

double RerankingLoss::num_items(const data::Batch& batch) const {
  if (!listwise()) return static_cast<double>(batch.segments.count());
  double questions = 0;
  for (auto [begin, end] : data::payload_of<RerankingPayload>(batch).questions)
    questions += end - begin >= config_.listwise.smallest_group ? 1 : 0;
  return std::max(questions, 1.0);
}

LossSum RerankingLoss::loss(const ForwardOutputs& outputs, const RerankingPayload& payload) {
  auto& model = outputs.model;
  auto states = outputs.last_token_states();
  bool generative = config_.task == Task::generative_reranker;
  auto scores_s = generative ? model::yes_no_logits(model, states, config_.yes, config_.no)
                             : model::classification_logits(model, states).select(1, 0);
  const auto& questions = payload.questions;
  LossSum result{scores_s.narrow(0, 0, 0).sum(), ranks(scores_s, questions)};
  if (!listwise()) {
    const auto& wanted = payload.relevances_s;
    result.sum = at::binary_cross_entropy_with_logits(scores_s, wanted, {}, {}, at::Reduction::Sum);
    result.metrics.push_back(
        {"acc", ((scores_s > 0) == (wanted > 0.5)).sum(), static_cast<double>(outputs.batch.segments.count())});
    return result;
  }
  auto right = at::zeros({}, at::TensorOptions(at::kFloat).device(scores_s.device()));
  for (auto [begin, end] : questions) {
    auto own = scores_s.narrow(0, begin, end - begin);
    right += (own.argmax() == 0).to(at::kFloat);
    if (end - begin >= config_.listwise.smallest_group)
      result.sum = result.sum - (own / config_.listwise.temperature).log_softmax(0)[0];
  }
  result.metrics.push_back({"acc", right, static_cast<double>(questions.size())});
  return result;
}

}  // namespace hone::train
