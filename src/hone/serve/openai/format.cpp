#include "hone/serve/openai/format.h"

#include <algorithm>
#include <cmath>

#include "hone/base/strings/utf8.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::serve {
namespace {

// JSON has no infinity; OpenAI writes -9999 for impossible tokens.
double finite(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

std::string text_of_bytes(const std::string& bytes) {
  std::string text;
  text::tokenizer::append_lossy(text, bytes);
  return text;
}

// An id that distinguishes equal texts.
std::string token_name(const std::string& bytes) {
  if (text::tokenizer::is_valid_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (unsigned char byte : bytes) fmt::format_to(std::back_inserter(name), "\\x{:02x}", byte);
  return name;
}

Json byte_list(const std::string& bytes) {
  Json list = Json::array();
  for (unsigned char byte : bytes) list.push_back(byte);
  return list;
}

Json one(const engine::TokenLogprob& entry, const text::TokenBytes& bytes) {
  auto own = bytes.of(entry.token);
  return {{"token", text_of_bytes(own)}, {"logprob", finite(entry.logprob)}, {"bytes", byte_list(own)}};
}

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
}

Json chat_logprob(const engine::PositionLogprobs& position, const text::TokenBytes& bytes) {
  Json entry = one(position.chosen, bytes), top = Json::array();
  for (const auto& other : position.top) top.push_back(one(other, bytes));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

void CompletionLogprobs::add(const engine::PositionLogprobs& position, const text::TokenBytes& bytes) {
  auto own = bytes.of(position.chosen.token);
  tokens.push_back(token_name(own));
  token_logprobs.push_back(finite(position.chosen.logprob));
  Json top = Json::object();
  for (const auto& other : position.top) {
    auto name = token_name(bytes.of(other.token));
    if (top.contains(name)) name = fmt::format("token_id:{}", other.token);  // two tokens may have the same text
    top[name] = finite(other.logprob);
  }
  top_logprobs.push_back(std::move(top));
  text_offset.push_back(offset);
  offset += static_cast<int64_t>(count_characters(own));
}

void CompletionLogprobs::add_first(text::TokenId token, const text::TokenBytes& bytes) {
  auto own = bytes.of(token);
  tokens.push_back(token_name(own));
  token_logprobs.push_back(nullptr);
  top_logprobs.push_back(nullptr);
  text_offset.push_back(offset);
  offset += static_cast<int64_t>(count_characters(own));
}

Json CompletionLogprobs::json() const {
  return {{"tokens", tokens}, {"token_logprobs", token_logprobs}, {"top_logprobs", top_logprobs}, {"text_offset", text_offset}};
}

Json prompt_logprobs_json(const std::vector<engine::PositionLogprobs>& positions, const text::TokenBytes& bytes) {
  Json out = Json::array({nullptr});
  for (const auto& position : positions) {
    Json entry = Json::object();
    auto add = [&](const engine::TokenLogprob& token, int64_t rank) {
      entry[std::to_string(token.token)] = {
          {"logprob", finite(token.logprob)}, {"rank", rank}, {"decoded_token", text_of_bytes(bytes.of(token.token))}};
    };
    add(position.chosen, position.token_rank);
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
