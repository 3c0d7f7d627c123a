#include "hone/train/losses/classification.h"

#include "hone/base/error.h"
#include "hone/model/pooling.h"

namespace hone::train {
namespace {

using Sequences = std::vector<const data::Sample*>;

Tensor class_numbers(const Sequences& texts) {
  std::vector<int64_t> numbers;
  for (const auto* text : texts) numbers.push_back(static_cast<int64_t>(text->sequence_labels.at(0)));
  return at::tensor(numbers, at::kLong);
}

// [S, labels]: ones at the classes of a text.
Tensor class_marks(const Sequences& texts, int64_t labels) {
  auto marks = at::zeros({static_cast<int64_t>(texts.size()), labels});
  for (size_t i = 0; i < texts.size(); ++i)
    for (float number : texts[i]->sequence_labels) marks[static_cast<int64_t>(i)][static_cast<int64_t>(number)] = 1;
  return marks;
}

Tensor wanted_values(const Sequences& texts, int64_t labels) {
  std::vector<float> values;
  for (const auto* text : texts) values.insert(values.end(), text->sequence_labels.begin(), text->sequence_labels.end());
  return at::tensor(values).view({-1, labels});
}

}  // namespace

data::PayloadCollator ClassificationPayload::collator(const TaskConfig& config) {
  return [problem = config.problem, labels = config.labels](const Sequences& texts) {
    auto payload = std::make_shared<ClassificationPayload>();
    payload->targets = problem == ProblemType::single_label  ? class_numbers(texts)
                       : problem == ProblemType::multi_label ? class_marks(texts, labels)
                                                             : wanted_values(texts, labels);
    return payload;
  };
}

double ClassificationLoss::num_items(const data::Batch& batch) const {
  double texts = static_cast<double>(batch.segments.count());
  return config_.problem == ProblemType::single_label ? texts : texts * static_cast<double>(config_.labels);
}

LossSum ClassificationLoss::loss(const ForwardOutputs& outputs, const ClassificationPayload& payload) {
  auto result = loss_of_labels(outputs, payload);
  add_router_losses(result, outputs, router_, num_items(outputs.batch));
  return result;
}

LossSum ClassificationLoss::loss_of_labels(const ForwardOutputs& outputs, const ClassificationPayload& payload) const {
  auto scores = model::classification_logits(outputs.model, outputs.last_token_states());
  const auto& targets = payload.targets;
  double texts = static_cast<double>(outputs.batch.segments.count());
  switch (config_.problem) {
    case ProblemType::regression: {
      auto squares = (scores - targets).square();
      return {squares.sum(), {{"mse", squares.detach().sum(), num_items(outputs.batch)}}};
    }
    case ProblemType::multi_label: {
      auto right = ((scores > 0) == (targets > 0.5)).all(1).sum();
      return {at::binary_cross_entropy_with_logits(scores, targets, {}, {}, at::Reduction::Sum), {{"acc", right, texts}}};
    }
    case ProblemType::single_label: {
      auto right = (scores.argmax(1) == targets).sum();
      return {at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum), {{"acc", right, texts}}};
    }
  }
  HONE_CHECK(false, "a problem without a loss");
}

}  // namespace hone::train
