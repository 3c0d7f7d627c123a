// hone's own rollout servers: token ids in, token ids with log-probabilities out, weights as safetensors.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "hone/base/json.h"
#include "hone/hub/http_call.h"
#include "hone/train/rl/servers/rollout_client.h"

namespace hone::train::rl {
namespace {

using Reply = RolloutProtocol::Reply;
using Outcome = RolloutProtocol::Outcome;
constexpr auto kProbeEvery = std::chrono::seconds(10);
constexpr int kProbesFailed = 3;

// A host that disappears does not close the connection: while a response is pending, its health is polled.
class Probe {
 public:
  Probe(std::string address, const RolloutProtocol::IsCancelled& is_cancelled)
      : address_(std::move(address)), is_cancelled_(is_cancelled), next_(std::chrono::steady_clock::now() + kProbeEvery) {}

  bool operator()() {
    if (is_cancelled_ && is_cancelled_()) return true;
    if (std::chrono::steady_clock::now() < next_) return failed_ == kProbesFailed;
    const auto response = hub::http_call({.address = address_ + "/live", .timeout = std::chrono::seconds(5), .is_cancelled = {}});
    failed_ = response.ok() ? 0 : failed_ + 1;
    next_ = std::chrono::steady_clock::now() + kProbeEvery;
    return failed_ == kProbesFailed;
  }

 private:
  std::string address_;
  const RolloutProtocol::IsCancelled& is_cancelled_;
  std::chrono::steady_clock::time_point next_;
  int failed_ = 0;
};

Reply not_done(const hub::HttpResponse& response) {
  Reply reply{.failure = response.failure};
  if (response.status == 409)
    reply.outcome = Outcome::other_weights;
  else if (response.status == 429)
    reply.outcome = Outcome::busy;
  else if (response.status >= 400 && response.status < 500 && response.status != 408)
    reply.outcome = Outcome::refused;
  if (response.status == 413) reply.failure += "; start the server with a larger `max_body`";
  return reply;
}

class HoneProtocol final : public RolloutProtocol {
 public:
  HoneProtocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling)
      : key_(config.api_key),
        settings_{{"temperature", sampling.temperature},
                  {"top_p", sampling.top_p},
                  {"top_k", sampling.top_k},
                  {"min_p", sampling.min_p},
                  {"repetition_penalty", sampling.repetition_penalty},
                  {"max_tokens", sampling.max_tokens},
                  {"include_stop_str_in_output", sampling.include_stop_str_in_output},
                  {"eos_token_ids", sampling.eos_token_ids},
                  {"logprobs", true}} {
    if (!sampling.stop.empty()) settings_["stop"] = sampling.stop;
  }

  Reply ask(const std::string& address, std::span<const RolloutQuestion> questions, int64_t version,
            const IsCancelled& is_cancelled) const override {
    Json body = settings_;
    body["weights_version"] = version;
    const RolloutMedia* last = nullptr;
    const bool has_media = std::ranges::any_of(questions, [](const auto& question) { return question.media != nullptr; });
    for (const auto& question : questions) {
      body["prompts"].push_back(question.prompt);
      if (has_media) {
        if (body["media"].is_null() || question.media.get() != last)
          body["media"].push_back(question.media ? question.media->body
                                                 : Json{{"parts", Json::array()}, {"spans", Json::array()}});
        body["media_each"].push_back(body["media"].size() - 1);
        last = question.media.get();
      }
      body["seeds"].push_back(question.seed);
      if (question.max_tokens > 0) body["max_tokens_each"].push_back(question.max_tokens);  // for all, or for none
    }
    const auto response = call(address, "/generate/", "POST", body.dump(), "application/json", is_cancelled);
    return response.ok() ? read(response.body, questions.size()) : not_done(response);
  }

  Reply send_weights(const std::string& address, const WeightsPayload& weights, const IsCancelled& is_cancelled) const override {
    for (size_t i = 0; i < weights.parts.size(); ++i) {
      const auto path = fmt::format("/update_weights/?version={}&part={}&parts={}", weights.version, i, weights.parts.size());
      const auto response = call(address, path, "POST", weights.parts[i], "application/octet-stream", is_cancelled);
      if (!response.ok()) return not_done(response);
    }
    return {.outcome = Outcome::done};
  }

  Reply greet(const std::string& address) const override {
    const auto response = call(address, "/get_engine_type/", "GET", "", "application/json", {}, std::chrono::seconds(10));
    if (!response.ok()) return not_done(response);
    const auto body = parse_json(response.body);
    if (!body || !body->is_object() || body->value("engine_type", Json()) != "hone")
      return {.outcome = Outcome::refused, .failure = "/get_engine_type/ names another engine"};
    if (body->value("updates_weights", Json()) != true)
      return {.outcome = Outcome::refused, .failure = "its weights are fixed; it was not started with `hone rollout`"};
    const auto scheduler = body->value("multi_turn_scheduler", Json());
    return {.outcome = Outcome::done, .scheduler = scheduler.is_string() ? scheduler.get<std::string>() : ""};
  }

  size_t most_questions() const override { return 512; }
  size_t requests_at_once() const override { return 1; }

 private:
  // Generation has no time limit; Probe detects whether the server is still alive.
  hub::HttpResponse call(const std::string& address, const std::string& path, const std::string& method, const std::string& body,
                         const std::string& type, const IsCancelled& is_cancelled,
                         std::chrono::seconds timeout = std::chrono::hours(24)) const {
    Probe probe(address, is_cancelled);
    return hub::http_call({.address = address + path,
                           .method = method,
                           .body = body,
                           .content_type = type,
                           .bearer_token = key_,
                           .timeout = timeout,
                           .is_cancelled = [&probe] { return probe(); }});
  }

  static Reply read(const std::string& text, size_t count) {
    Reply reply{.outcome = Outcome::refused, .failure = "it returned no completions for all prompts"};
    const auto body = parse_json(text);
    if (!body || !body->is_object()) return reply;
    try {
      const auto &ids = body->at("completion_ids"), &texts = body->at("texts"), &cut = body->at("truncated"),
                 &logprobs = body->at("logprobs"), &versions = body->at("weights_versions");
      for (const auto* list : {&ids, &texts, &cut, &logprobs, &versions})
        if (!list->is_array() || list->size() != count) return reply;
      for (size_t i = 0; i < count; ++i) {
        GeneratedCompletion completion;
        completion.tokens = ids[i].get<std::vector<text::TokenId>>();
        completion.text = texts[i].get<std::string>();
        completion.truncated = cut[i].get<bool>();
        completion.logprobs = logprobs[i].get<std::vector<float>>();
        completion.versions = versions[i].get<std::vector<int64_t>>();
        if (completion.logprobs.size() != completion.tokens.size() || completion.versions.size() != completion.tokens.size())
          return reply;
        reply.completions.push_back(std::move(completion));
      }
    } catch (const Json::exception& problem) {
      reply.failure = fmt::format("it returned something else than completions: {}", problem.what());
      return reply;
    }
    reply.outcome = Outcome::done;
    return reply;
  }

  std::string key_;
  Json settings_;
};

}  // namespace

std::unique_ptr<RolloutProtocol> make_hone_protocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling) {
  return std::make_unique<HoneProtocol>(config, sampling);
}

}  // namespace hone::train::rl
