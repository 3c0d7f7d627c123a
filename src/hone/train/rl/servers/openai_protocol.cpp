// Any server with OpenAI's /v1/completions, sampled as it is: its weights are not updated, and it returns text.
#include <map>
#include <mutex>

#include "hone/base/json.h"
#include "hone/hub/http_call.h"
#include "hone/train/rl/servers/rollout_client.h"

namespace hone::train::rl {
namespace {

using OpenAiReply = RolloutProtocol::Reply;
using OpenAiOutcome = RolloutProtocol::Outcome;

OpenAiReply refused_by(const hub::HttpResponse& response) {
  OpenAiReply reply{.failure = response.failure};
  if (response.status == 429)
    reply.outcome = OpenAiOutcome::busy;
  else if (response.status >= 400 && response.status < 500 && response.status != 408)
    reply.outcome = OpenAiOutcome::refused;
  return reply;
}

class OpenAiProtocol final : public RolloutProtocol {
 public:
  OpenAiProtocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling,
                 std::shared_ptr<const text::Tokenizer> tokenizer)
      : key_(config.api_key), tokenizer_(std::move(tokenizer)), sampling_(sampling), timeout_(config.timeout) {}

  OpenAiReply ask(const std::string& address, std::span<const RolloutQuestion> questions, int64_t,
                  const IsCancelled& is_cancelled) const override {
    OpenAiReply reply{.outcome = OpenAiOutcome::done};
    for (const auto& question : questions) {
      if (question.media)
        return {.outcome = OpenAiOutcome::refused, .failure = "prompts with media are not sent to OpenAI's completions API"};
      const auto response = call(address, "/completions", "POST", body_for(address, question).dump(), is_cancelled);
      if (!response.ok()) return refused_by(response);
      auto completion = read(response.body);
      if (!completion) return {.outcome = OpenAiOutcome::refused, .failure = "it returned no choice with a text"};
      reply.completions.push_back(std::move(*completion));
    }
    return reply;
  }

  OpenAiReply send_weights(const std::string&, const WeightsPayload&, const IsCancelled&) const override {
    return {.outcome = OpenAiOutcome::done};
  }

  OpenAiReply greet(const std::string& address) const override {
    const auto response = call(address, "/models", "GET", "", {});
    if (!response.ok()) return refused_by(response);
    const auto body = parse_json(response.body);
    const auto models = body && body->is_object() ? body->value("data", Json()) : Json();
    if (models.is_array() && !models.empty() && models[0].is_object())
      if (const auto name = models[0].value("id", Json()); name.is_string()) {
        std::lock_guard lock(mutex_);
        models_[address] = name.get<std::string>();
      }
    return {.outcome = OpenAiOutcome::done};
  }

  size_t most_questions() const override { return 1; }
  size_t requests_at_once() const override { return 8; }

 private:
  // Only OpenAI's fields; others only if they differ from the default.
  Json body_for(const std::string& address, const RolloutQuestion& question) const {
    Json body{{"prompt", question.prompt},
              {"max_tokens", question.max_tokens > 0 ? question.max_tokens : sampling_.max_tokens},
              {"temperature", sampling_.temperature},
              {"top_p", sampling_.top_p},
              {"seed", question.seed >> 1}};  // signed there
    {
      std::lock_guard lock(mutex_);
      if (const auto model = models_.find(address); model != models_.end()) body["model"] = model->second;
    }
    if (!sampling_.stop.empty()) body["stop"] = sampling_.stop;
    if (sampling_.top_k > 0) body["top_k"] = sampling_.top_k;
    if (sampling_.min_p > 0) body["min_p"] = sampling_.min_p;
    if (sampling_.repetition_penalty != 1) body["repetition_penalty"] = sampling_.repetition_penalty;
    return body;
  }

  std::optional<GeneratedCompletion> read(const std::string& json) const {
    const auto body = parse_json(json);
    if (!body || !body->is_object()) return std::nullopt;
    const auto choices = body->value("choices", Json());
    if (!choices.is_array() || choices.empty() || !choices[0].is_object()) return std::nullopt;
    const auto text = choices[0].value("text", Json());
    if (!text.is_string()) return std::nullopt;
    GeneratedCompletion completion;
    completion.text = text.get<std::string>();
    completion.truncated = choices[0].value("finish_reason", Json()) == "length";
    completion.tokens = tokenizer_->encode(completion.text, {.add_special_tokens = false});
    if (!completion.truncated && !sampling_.eos_token_ids.empty()) completion.tokens.push_back(sampling_.eos_token_ids.front());
    return completion;
  }

  hub::HttpResponse call(std::string address, const std::string& path, const std::string& method, const std::string& body,
                         const IsCancelled& is_cancelled) const {
    while (address.ends_with('/')) address.pop_back();
    if (!address.ends_with("/v1")) address += "/v1";
    return hub::http_call({.address = address + path,
                           .method = method,
                           .body = body,
                           .bearer_token = key_,
                           .timeout = std::chrono::seconds(static_cast<int64_t>(timeout_) + 1),
                           .is_cancelled = is_cancelled});
  }

  std::string key_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  engine::SamplingParams sampling_;
  double timeout_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::string> models_;  // the name of each server's first model
};

}  // namespace

std::unique_ptr<RolloutProtocol> make_openai_protocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling,
                                                      std::shared_ptr<const text::Tokenizer> tokenizer) {
  return std::make_unique<OpenAiProtocol>(config, sampling, std::move(tokenizer));
}

}  // namespace hone::train::rl
