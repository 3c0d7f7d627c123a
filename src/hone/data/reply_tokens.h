// Turns of others within a rollout: what the template writes between an answer of the model and its next one.
#pragma once
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {

// The tokens behind an answer to `question` when `replies` follow it: the end of the answer's turn, the replies, and the opening
// of the next turn. What the answer says makes no difference, so that tokens which were sampled stay as they are.
Result<std::vector<text::TokenId>> encode_replies(const Encoder& encoder, const Conversation& question,
                                                  const std::vector<Message>& replies);

}  // namespace hone::data
