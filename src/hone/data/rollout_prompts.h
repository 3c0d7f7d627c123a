// Rollouts (GRPO): a row up to the generation prompt, without its final response, and other speakers' turns between completions.
#pragma once
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/placed_media.h"

namespace hone::data {

struct RolloutPrompt {
  std::vector<text::TokenId> ids;
  std::vector<Picture> pictures;
  std::vector<Sound> sounds;
};

// Removes trailing responses from `row`. A prompt longer than the encoder's max_length is truncated on the left if configured and
// without media, and is invalid otherwise; one of more than `most_tokens` leaves no room for a completion.
Result<RolloutPrompt> encode_rollout_prompt(const Encoder& encoder, Conversation& row, int64_t most_tokens);

// The tokens after a completion of `question` if `replies` follow it: the end of the turn, the replies, and the start of the next
// turn. They do not depend on the completion's text, so that sampled tokens stay unchanged. `images` are those of the replies,
// which have tags like the question's.
struct EncodedReplies {
  std::vector<text::TokenId> ids;
  PlacedMedia media;
};
Result<EncodedReplies> encode_replies(const Encoder& encoder, const Conversation& question, const std::vector<Message>& replies,
                                      const std::vector<std::string>& images = {});

}  // namespace hone::data
