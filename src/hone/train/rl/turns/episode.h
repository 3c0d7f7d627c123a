// A multi-turn episode during generation: its tokens with their loss mask, and its messages.
#pragma once
#include <limits>

#include "hone/data/rollout_prompts.h"
#include "hone/train/rl/rollout_sample.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {

// Limits on the turns of an episode.
struct EpisodeLimits {
  int64_t max_completion_length, max_model_len;
  bool limits_total = false;                                   // max_completion_length is that of all turns together
  int64_t max_text_len = std::numeric_limits<int64_t>::max();  // of the context without the images that turns bring

  // Tokens of the next turn, after this many in earlier ones.
  int64_t room_after(int64_t written) const { return limits_total ? max_completion_length - written : max_completion_length; }
};

class Episode {
 public:
  // `sample`'s completion is empty and is filled during the episode. `media`: of its prompt, null if it has none.
  Episode(RolloutSample& sample, uint64_t seed, const EpisodeLimits& limits, const data::Encoder& encoder,
          std::shared_ptr<const PromptMedia> media = {});

  uint64_t seed() const { return seed_; }
  const std::vector<text::TokenId>& context() const { return context_; }      // what the model reads next
  int64_t room() const { return limits_.room_after(written()); }              // tokens of its next turn
  const std::shared_ptr<const PromptMedia>& media() const { return media_; }  // of the context
  const RolloutSample& sample() const { return sample_; }

  // The model's next completion, or the continuation of the last one.
  void take(GeneratedCompletion generated);
  // The last turn, as input of schedulers.
  TurnInput input(bool last) const;
  // Applies the scheduler's reply; false if there is no room for the next turn, which truncates the episode. An error if the
  // template cannot render it. Images are those of with_inlined_images(), which the model can read.
  Result<bool> follow(const NextTurn& next, const data::Encoder& encoder);
  void add_infos(const Json& infos);

 private:
  int64_t written() const { return written_before_ + static_cast<int64_t>(sample_.completion.tokens.size()); }
  bool has_room(size_t context, size_t completion, int64_t image_tokens);
  Result<bool> start_round(const NextTurn& next, const data::Encoder& encoder);
  Result<bool> append_replies(const NextTurn& next, const data::Encoder& encoder);
  void append_others(const std::vector<text::TokenId>& ids);
  void append_media(data::EncodedReplies replies, const std::vector<std::string>& images);
  size_t tokens_within(size_t bytes, const data::Encoder& encoder) const;
  void cut_turn(size_t tokens, size_t bytes);

  RolloutSample& sample_;
  uint64_t seed_;
  EpisodeLimits limits_;
  std::vector<text::TokenId> context_;
  std::shared_ptr<const PromptMedia> media_;
  data::Conversation prompt_;            // the prompt with reserved tags, after which replies are rendered
  data::Conversation dialog_;            // with all media so far, for schedulers
  std::vector<data::Message> messages_;  // all so far
  std::vector<data::Message> later_;     // those after the prompt, with reserved tags
  std::string text_;                     // in the last turn
  size_t turn_begin_ = 0;                // its first token in the completion
  bool goes_on_ = false;                 // the last message is continued
  int64_t written_before_ = 0;           // tokens of earlier rounds
  // Placeholder tokens of the images of the row's prompt, and of those that turns or an environment added.
  int64_t row_image_tokens_ = 0, turn_image_tokens_ = 0;
};

}  // namespace hone::train::rl
