// A model that judges whole texts instead of writing: its class, its values, its place among others, its relevance.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/text/tokenizer.h"
#include "hone/train/task.h"

namespace hone::cli {

// As ms-swift answers: the number of a class, a list of classes, a value, a vector, or a list with one score.
struct Verdict {
  Json content;
  Json logprobs;  // of the classes; null where there are none
  Tensor scores;  // float32 on the CPU: what the content was made of, probabilities of classes
};

class Judge {
 public:
  // `squash`: scores of relevance between 0 and 1.
  Judge(model::CausalLM& model, const train::TaskConfig& task, const text::Tokenizer& tokenizer, bool squash);
  // `likeliest`: so many classes are listed with their log-probabilities.
  std::vector<Verdict> operator()(const std::vector<std::vector<text::TokenId>>& texts, int64_t likeliest = 0) const;
  // Of decisions, whose texts come with grades as data::encode_decision gives them: the likeliest option and the share of each.
  std::vector<Verdict> decide(const std::vector<std::vector<text::TokenId>>& texts, const std::vector<std::vector<float>>& grades) const;

 private:
  Verdict of_classes(const Tensor& scores, int64_t likeliest) const;

  model::CausalLM& model_;
  train::TaskConfig task_;
  bool squash_;
};

}  // namespace hone::cli
