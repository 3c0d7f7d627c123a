#include "hone/train/losses/reranking.h"

#include <cmath>

#include "hone/model/pooling.h"
#include "hone/train/methods/forward_input.h"

namespace hone::train {
namespace {

// [begin, end) of a relevant candidate and the ones behind it, up to the next relevant one.
std::vector<std::pair<int64_t, int64_t>> questions_of(const data::Batch& batch) {
  std::vector<std::pair<int64_t, int64_t>> questions;
  for (size_t i = 0; i < batch.sequence_labels.size(); ++i) {
    auto at = static_cast<int64_t>(i);
    if (batch.sequence_labels[i].at(0) == 1.0f)
      questions.emplace_back(at, at + 1);
    else if (!questions.empty())
      questions.back().second = at + 1;
  }
  return questions;
}

Tensor relevances(const data::Batch& batch, at::Device device) {
  std::vector<float> values;
  for (const auto& grades : batch.sequence_labels) values.push_back(grades.at(0));
  return at::tensor(values).to(device);
}

// Where the relevant candidate came among those of its question: 1/rank, and the gain of that place.
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

double RerankingLoss::num_items(const data::Batch& batch) const {
  if (!listwise()) return static_cast<double>(batch.segments.count());
  double questions = 0;
  for (auto [begin, end] : questions_of(batch)) questions += end - begin >= config_.listwise.smallest_group ? 1 : 0;
  return std::max(questions, 1.0);
}

LossSum RerankingLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  auto states = model::pool_last_token(model, forward_input(batch));
  bool generative = config_.task == Task::generative_reranker;
  auto scores_s = generative ? model::yes_no_logits(model, states, config_.yes, config_.no)
                             : model::classification_logits(model, states).select(1, 0);
  auto questions = questions_of(batch);
  LossSum result{scores_s.narrow(0, 0, 0).sum(), ranks(scores_s, questions)};
  if (!listwise()) {
    auto wanted = relevances(batch, scores_s.device());
    result.sum = at::binary_cross_entropy_with_logits(scores_s, wanted, {}, {}, at::Reduction::Sum);
    result.metrics.push_back({"acc", ((scores_s > 0) == (wanted > 0.5)).sum(), static_cast<double>(batch.segments.count())});
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
