#include "hone/train/losses/classification.h"

#include "hone/model/pooling.h"
#include "hone/train/methods/forward_input.h"

namespace hone::train {
namespace {

Tensor class_numbers(const data::Batch& batch, at::Device device) {
  std::vector<int64_t> numbers;
  for (const auto& grades : batch.sequence_labels) numbers.push_back(static_cast<int64_t>(grades.at(0)));
  return at::tensor(numbers, at::kLong).to(device);
}

// [S, labels]: ones at the classes a text has.
Tensor class_marks(const data::Batch& batch, int64_t labels, at::Device device) {
  auto marks = at::zeros({static_cast<int64_t>(batch.sequence_labels.size()), labels});
  for (size_t i = 0; i < batch.sequence_labels.size(); ++i)
    for (float number : batch.sequence_labels[i]) marks[static_cast<int64_t>(i)][static_cast<int64_t>(number)] = 1;
  return marks.to(device);
}

Tensor wanted_values(const data::Batch& batch, int64_t labels, at::Device device) {
  std::vector<float> values;
  for (const auto& grades : batch.sequence_labels) values.insert(values.end(), grades.begin(), grades.end());
  return at::tensor(values).view({-1, labels}).to(device);
}

}  // namespace

double ClassificationLoss::num_items(const data::Batch& batch) const {
  double texts = static_cast<double>(batch.segments.count());
  return config_.problem == ProblemType::single_label ? texts : texts * static_cast<double>(config_.labels);
}

LossSum ClassificationLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  auto scores = model::classification_logits(model, model::pool_last_token(model, forward_input(batch)));
  double texts = static_cast<double>(batch.segments.count());
  switch (config_.problem) {
    case ProblemType::regression: {
      auto squares = (scores - wanted_values(batch, config_.labels, scores.device())).square();
      return {squares.sum(), {{"mse", squares.detach().sum(), num_items(batch)}}};
    }
    case ProblemType::multi_label: {
      auto marks = class_marks(batch, config_.labels, scores.device());
      auto right = ((scores > 0) == (marks > 0.5)).all(1).sum();
      return {at::binary_cross_entropy_with_logits(scores, marks, {}, {}, at::Reduction::Sum), {{"acc", right, texts}}};
    }
    case ProblemType::single_label: {
      auto numbers = class_numbers(batch, scores.device());
      auto right = (scores.argmax(1) == numbers).sum();
      return {at::cross_entropy_loss(scores, numbers, {}, at::Reduction::Sum), {{"acc", right, texts}}};
    }
  }
  HONE_CHECK(false, "a problem without a loss");
}

}  // namespace hone::train
