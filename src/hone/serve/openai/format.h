// Parts of OpenAI's responses that endpoints share: usage, log-probabilities, finish reasons, events.
#pragma once
#include "hone/engine/request.h"
#include "hone/serve/http/message.h"
#include "hone/text/token_bytes.h"

namespace hone::serve {

struct Usage {
  int64_t prompt = 0, cached = 0, completion = 0;
  int64_t thought = 0;  // of the completion, as far as its text was known to be a thought
};
Json usage_json(const Usage& usage);

// {"token", "logprob", "bytes", "top_logprobs"}
Json chat_logprob(const engine::PositionLogprobs& position, const text::TokenBytes& bytes);
// The format of completions: parallel lists, in which a token that is part of a character is written "bytes:\xf0\x9f", as OpenAI
// does. `offset` is the character offset of the next token and is advanced.
struct CompletionLogprobs {
  Json tokens = Json::array(), token_logprobs = Json::array(), top_logprobs = Json::array(), text_offset = Json::array();
  int64_t offset = 0;
  void add(const engine::PositionLogprobs& position, const text::TokenBytes& bytes);
  void add_first(text::TokenId token, const text::TokenBytes& bytes);  // of a prompt, which nothing predicted
  Json json() const;
};
// vLLM's prompt_logprobs: a null for the first token, then one object per token.
Json prompt_logprobs_json(const std::vector<engine::PositionLogprobs>& positions, const text::TokenBytes& bytes);

Json finish_json(engine::FinishReason finish, bool calls);  // null while it continues
std::string event(const Json& data);                        // "data: …\n\n"
std::string event(std::string_view name, const Json& data);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";  // of complete streams only

}  // namespace hone::serve
