// A completion with its prompt, and the turns between them.
#pragma once
#include "hone/train/rl/prompts.h"
#include "hone/train/rl/rollout_engine.h"

namespace hone::train::rl {

// Data of a multi-turn rollout.
struct TurnRecord {
  int64_t count = 1;                       // turns of the model
  size_t answer_begin = 0;                 // the last answer's first token in the completion
  std::vector<data::Message> before = {};  // the conversation up to the last answer; empty: the prompt's
  Json infos = Json::object();             // the scheduler's information for rewards
  bool own_prompt = false;                 // an environment wrote the prompt, not the row
};

struct RolloutSample {
  std::shared_ptr<const Prompt> prompt;
  GeneratedCompletion
      completion;  // of several turns: from the first answer to the last, tokens of others masked; its text is the last answer's
  TurnRecord turns = {};
};

// Tokens that the model wrote.
int64_t trained_tokens(const GeneratedCompletion& completion);
// Everything before the last answer, as text.
std::string before_last_answer(const RolloutSample& sample, const text::Tokenizer& tokenizer);
// What is learned from it.
data::Sample training_sample(const RolloutSample& sample);

// For checkpoints and other processes: everything but the row, which is named by its number.
Json to_json(const RolloutSample& sample);
// Into a sample that has the row's prompt.
void read_json(const Json& json, RolloutSample& sample);

}  // namespace hone::train::rl
