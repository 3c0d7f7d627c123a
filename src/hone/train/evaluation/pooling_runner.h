// Inference of pooling models: classes, regression values, embeddings, relevance scores.
#pragma once
#include "hone/data/sample.h"
#include "hone/model/causal_lm.h"
#include "hone/text/tokenizer.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// As in ms-swift: a class index, a list of classes, a value, a vector, or a list with one score.
struct PoolingOutput {
  Json content;
  Json logprobs;  // of the classes; null where there are none
  Tensor scores;  // float32 on the CPU: what the content was made of, probabilities of classes
};

class PoolingRunner {
 public:
  // `squash`: maps relevance scores to [0, 1].
  PoolingRunner(model::CausalLM& model, const TaskConfig& task, const text::Tokenizer& tokenizer, bool squash);
  // `top_n`: lists this many classes with their log-probabilities.
  std::vector<PoolingOutput> operator()(const std::vector<std::vector<text::TokenId>>& texts, int64_t top_n = 0) const;
  // From data::encode_pooling_text, media included.
  std::vector<PoolingOutput> operator()(const std::vector<data::Sample>& samples, int64_t top_n = 0) const;
  // For decisions from data::encode_decision: the most likely option and the probability of each.
  std::vector<PoolingOutput> decide(const std::vector<data::Sample>& questions) const;

 private:
  std::vector<PoolingOutput> run(const model::ForwardInput& input, int64_t top_n) const;
  PoolingOutput of_classes(const Tensor& scores, int64_t top_n) const;

  model::CausalLM& model_;
  TaskConfig task_;
  bool squash_;
};

}  // namespace hone::train
