// Rows that the model completes itself (GRPO): up to the generation prompt, without the final response of the row.
#pragma once
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {

struct RolloutPrompt {
  std::vector<text::TokenId> ids;
  std::vector<Picture> pictures;
  std::vector<Sound> sounds;
};

// Removes trailing responses from `row`. A prompt longer than the encoder's max_length is truncated on the left if configured and
// without media, and is invalid otherwise; one of more than `most_tokens` leaves no room for a completion.
Result<RolloutPrompt> encode_rollout_prompt(const Encoder& encoder, Conversation& row, int64_t most_tokens);

}  // namespace hone::data
