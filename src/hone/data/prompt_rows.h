// Rows that a model completes itself (GRPO): up to the generation prompt, without the answer that the row may end with.
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

// `row` loses its trailing answers. A prompt beyond the encoder's max_length is truncated at the left where the config says so
// and it has no media, and is a bad row otherwise; one of more than `most_tokens` leaves no room for a completion.
Result<RolloutPrompt> encode_rollout_prompt(const Encoder& encoder, Conversation& row, int64_t most_tokens);

}  // namespace hone::data
