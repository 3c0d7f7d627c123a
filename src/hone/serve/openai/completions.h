// POST /v1/completions: continues a text without a chat template.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

struct CompletionTask {
  std::string model, user;
  std::vector<std::vector<text::TokenId>> prompts;
  engine::SamplingParams sampling;
  int64_t n = 1, best_of = 1, priority = 0, max_tokens = 16;
  bool echo = false;
  bool only_prompt = false;  // echoed, and its log-probabilities: max_tokens 0
  StreamOptions stream;
};

CompletionTask read_completion(const Json& body, const ServedModel& served);
// A text, a list of texts, token ids, or a list of those; `where` names the field. At most `most` of them.
std::vector<std::vector<text::TokenId>> read_prompts(const Json& given, const std::string& where, size_t most,
                                                     bool special_tokens, const ServedModel& served);
asio::awaitable<void> completions(Exchange& exchange, Context& context);

}  // namespace hone::serve
