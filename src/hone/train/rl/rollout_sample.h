// A completion with its prompt, and the turns between them.
#pragma once
#include <span>

#include "hone/train/rl/prompts.h"
#include "hone/train/rl/rollout_engine.h"

namespace hone::train::rl {

// Data of a multi-turn rollout.
struct TurnRecord {
  int64_t count = 1;                       // turns of the model
  size_t last_turn_begin = 0;              // its first token in the completion
  std::vector<data::Message> before = {};  // the conversation before the last turn; empty: the prompt's
  Json infos = Json::object();             // the scheduler's information for rewards
  bool own_prompt = false;                 // an environment or an earlier round wrote the prompt, not the row
  data::PlacedMedia media = {};            // in the completion, between two turns: positions in its tokens
  data::MediaSources sources = {};         // of these
};

struct RolloutSample {
  std::shared_ptr<const Prompt> prompt;
  GeneratedCompletion
      completion;  // of several turns: from the first of the model to its last, other tokens masked; its text is the last one's
  TurnRecord turns = {};
  std::vector<RolloutSample> earlier = {};  // rounds of the same episode that train as sequences of their own, first to last
  int64_t group = 0;                        // of the completions of one prompt: the prompt's number in the rollout
};

// The sequences that train, in order: of each episode the earlier rounds and the last, which is the episode itself. They point
// into `episodes`.
using TrainingRounds = std::vector<const RolloutSample*>;
TrainingRounds training_rounds(std::span<const RolloutSample> episodes);
// Log-probabilities of completions at the positions of their tokens' targets, [T]; undefined if one has none.
Tensor rollout_logps(const data::Batch& batch, const TrainingRounds& samples);

// Tokens that the model wrote.
int64_t trained_tokens(const GeneratedCompletion& completion);
// The generated tokens of each turn.
std::vector<std::vector<text::TokenId>> generated_turns(const GeneratedCompletion& completion);
// All messages of an episode, or of one of its rounds.
std::vector<data::Message> conversation_of(const RolloutSample& sample);
// Everything before the last turn of the model, as text.
std::string before_last_turn(const RolloutSample& sample, const text::Tokenizer& tokenizer);
// Adds media whose positions count from token `first` of the sample.
void add_media(const data::PlacedMedia& media, size_t first, data::Sample& sample);
// The training sample.
data::Sample training_sample(const RolloutSample& sample);
// The conversation up to the last turn with all media, which are the row's and those of turns. Its messages are `before`, if any.
data::Conversation question_of(const RolloutSample& sample);

// A list with the placement of media for each sequence whose media differ from those of its row, and null for the others; null if
// none differs.
Json own_media_json(const TrainingRounds& samples);

// For checkpoints and other processes: role, content and extra of each message.
Json messages_to_json(const std::vector<data::Message>& messages);
std::vector<data::Message> messages_from_json(const Json& list);

// For the same: everything but the row, which is named by its number.
Json to_json(const RolloutSample& sample);
// Into a sample that has the row's prompt.
void read_json(const Json& json, const data::Encoder& encoder, RolloutSample& sample);
// With the row's prompt, or that of `before`, a sample of the same prompt, whose media it may share.
RolloutSample sample_from(const Json& json, const RolloutSample* before, const Prompts& prompts);

}  // namespace hone::train::rl
