// Answers to prompts, by the engine over the model that trains.
#pragma once
#include <memory>

#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "hone/train/group.h"

namespace hone::train::rl {

struct WrittenAnswer {
  std::vector<text::TokenId> tokens;  // with the token that ended it
  std::string text;                   // without
  bool cut = false;                   // max_tokens ended it
};

class AnswerWriter {
 public:
  AnswerWriter(model::CausalLM& model, std::shared_ptr<const data::Encoder> encoder, std::shared_ptr<const text::Tokenizer> tokenizer, Group& group, engine::SamplingParams sampling,
               const engine::EngineConfig& config, bool sleeps);

  struct Question {
    const std::vector<text::TokenId>* prompt;
    uint64_t seed;
  };
  // With the weights as they are. Every process calls it, with as many questions as it has. Throws StopBetweenSteps on all of them when
  // one is asked to stop.
  std::vector<WrittenAnswer> write(const std::vector<Question>& questions);

 private:
  engine::Request request_for(const Question& question) const;
  bool run(std::vector<WrittenAnswer>& answers, const std::vector<Question>& questions);

  model::CausalLM& model_;
  std::shared_ptr<const data::Encoder> encoder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Group& group_;
  engine::SamplingParams sampling_;
  engine::EngineConfig config_;
  bool sleeps_;                             // between rollouts
  std::unique_ptr<engine::Engine> engine_;
  int64_t version_ = 0;
};

}  // namespace hone::train::rl
