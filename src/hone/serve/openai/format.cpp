#include "hone/serve/openai/format.h"

#include <algorithm>
#include <cmath>

namespace hone::serve {
namespace {

// JSON has no infinity; OpenAI writes -9999 for what cannot happen.
double finite(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

std::string text_of(text::TokenId token, const text::Tokenizer& tokenizer) { return tokenizer.decode(std::span(&token, 1)); }

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xC0) != 0x80; });
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (unsigned char byte : text) bytes.push_back(byte);
  return bytes;
}

Json one(const engine::TokenLogprob& entry, const text::Tokenizer& tokenizer) {
  auto text = text_of(entry.token, tokenizer);
  return {{"token", text}, {"logprob", finite(entry.logprob)}, {"bytes", bytes_of(text)}};
}

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
}

Json chat_logprob(const engine::PositionLogprobs& position, const text::Tokenizer& tokenizer) {
  Json entry = one(position.chosen, tokenizer), top = Json::array();
  for (const auto& other : position.top) top.push_back(one(other, tokenizer));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

void CompletionLogprobs::add(const engine::PositionLogprobs& position, const text::Tokenizer& tokenizer) {
  auto text = text_of(position.chosen.token, tokenizer);
  tokens.push_back(text);
  token_logprobs.push_back(finite(position.chosen.logprob));
  Json top = Json::object();
  for (const auto& other : position.top) top[text_of(other.token, tokenizer)] = finite(other.logprob);
  top_logprobs.push_back(std::move(top));
  text_offset.push_back(offset);
  offset += characters(text);
}

void CompletionLogprobs::add_first(text::TokenId token, const text::Tokenizer& tokenizer) {
  auto text = text_of(token, tokenizer);
  tokens.push_back(text);
  token_logprobs.push_back(nullptr);
  top_logprobs.push_back(nullptr);
  text_offset.push_back(offset);
  offset += characters(text);
}

Json CompletionLogprobs::json() const {
  return {{"tokens", tokens}, {"token_logprobs", token_logprobs}, {"top_logprobs", top_logprobs}, {"text_offset", text_offset}};
}

Json prompt_logprobs_json(const std::vector<engine::PositionLogprobs>& positions, const text::Tokenizer& tokenizer) {
  Json out = Json::array({nullptr});
  for (const auto& position : positions) {
    Json entry = Json::object();
    auto add = [&](const engine::TokenLogprob& token, int64_t rank) {
      entry[std::to_string(token.token)] = {
          {"logprob", finite(token.logprob)}, {"rank", rank}, {"decoded_token", text_of(token.token, tokenizer)}};
    };
    add(position.chosen, position.rank);
    for (size_t i = 0; i < position.top.size(); ++i)
      if (position.top[i].token != position.chosen.token) add(position.top[i], static_cast<int64_t>(i) + 1);
    out.push_back(std::move(entry));
  }
  return out;
}

Json finish_json(engine::FinishReason finish, bool calls) {
  switch (finish) {
    case engine::FinishReason::none:
      return nullptr;
    case engine::FinishReason::length:
      return "length";
    default:
      return calls ? "tool_calls" : "stop";
  }
}

std::string event(const Json& data) { return fmt::format("data: {}\n\n", dump(data)); }
std::string event(std::string_view name, const Json& data) { return fmt::format("event: {}\ndata: {}\n\n", name, dump(data)); }

}  // namespace hone::serve
