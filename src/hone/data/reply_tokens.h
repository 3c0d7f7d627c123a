// Other speakers' turns within a rollout: the text that the template renders between two completions of the model.
#pragma once
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {

// The tokens after a completion of `question` if `replies` follow it: the end of the turn, the replies, and the start of the next
// turn. They do not depend on the completion's text, so that sampled tokens stay unchanged.
Result<std::vector<text::TokenId>> encode_replies(const Encoder& encoder, const Conversation& question,
                                                  const std::vector<Message>& replies);

}  // namespace hone::data
