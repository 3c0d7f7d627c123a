// A multi-turn episode during generation: its tokens with their loss mask, and its messages.
#pragma once
#include "hone/train/rl/rollout_sample.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {

class Episode {
 public:
  // `sample`'s completion is empty and is filled during the episode.
  Episode(RolloutSample& sample, uint64_t seed);

  uint64_t seed() const { return seed_; }
  const std::vector<text::TokenId>& context() const { return context_; }  // what the model reads next
  int64_t written() const { return static_cast<int64_t>(sample_.completion.tokens.size()); }
  const RolloutSample& sample() const { return sample_; }

  // The model's next completion, or the continuation of the last one.
  void take(GeneratedCompletion generated);
  // The last turn, as input of schedulers.
  TurnInput input(bool last) const;
  // Applies the scheduler's reply. An error if the template cannot render it.
  Result<bool> follow(const NextTurn& next, const data::Encoder& encoder);
  void add_infos(const Json& infos);
  // The context has no room for the next turn.
  void truncate() { sample_.completion.truncated = true; }

 private:
  void append_others(const std::vector<text::TokenId>& ids);
  void keep_text(size_t bytes, const data::Encoder& encoder);

  RolloutSample& sample_;
  uint64_t seed_;
  std::vector<text::TokenId> context_;
  std::vector<data::Message> messages_;
  std::string text_;       // in the last turn
  size_t turn_begin_ = 0;  // its first token in the completion
  bool goes_on_ = false;   // the last message is continued
};

}  // namespace hone::train::rl
