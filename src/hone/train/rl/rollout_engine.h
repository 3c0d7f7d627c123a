// Generates completions in the training process, with the weights that train.
#pragma once
#include <memory>

#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train::rl {

struct GeneratedCompletion {
  std::vector<text::TokenId> tokens;  // with the token that ended it
  std::string text;                   // without
  bool truncated = false;             // max_tokens ended it
};

class RolloutEngine {
 public:
  RolloutEngine(model::CausalLM& model, std::shared_ptr<const data::Encoder> encoder,
                std::shared_ptr<const text::Tokenizer> tokenizer, ParallelStrategy& group, engine::SamplingParams sampling,
                const engine::EngineConfig& config, bool sleeps);

  struct Question {
    const std::vector<text::TokenId>* prompt;
    uint64_t seed;
  };
  // With the weights as they are. Every process calls it, with as many questions as it has. Throws StopBetweenSteps on all of
  // them when one is asked to stop.
  std::vector<GeneratedCompletion> write(const std::vector<Question>& questions);

 private:
  engine::Request request_for(const Question& question) const;
  bool run(std::vector<GeneratedCompletion>& answers, const std::vector<Question>& questions);

  model::CausalLM& model_;
  std::shared_ptr<const data::Encoder> encoder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  ParallelStrategy& group_;
  engine::SamplingParams sampling_;
  engine::EngineConfig config_;
  bool sleep_between_rollouts_;  // between rollouts
  std::unique_ptr<engine::Engine> engine_;
  int64_t version_ = 0;
};

}  // namespace hone::train::rl
