// Sampling for Twinkle's client: complete responses to rows or conversations, ready for training.
#include "hone/serve/http/head.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_dialect.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {

Json TwinkleApi::sampled(const std::vector<text::TokenId>& prompt, const Json& response) const {
  Json sequences = Json::array();
  for (const auto& sequence : response["sequences"]) {
    const auto tokens = sequence["tokens"].get<std::vector<text::TokenId>>();
    Json logprobs = Json::array(), ids = prompt, labels = Json::array();
    for (size_t i = 0; i < tokens.size(); ++i)
      logprobs.push_back(Json::array({Json::array({tokens[i], sequence["logprobs"][i]})}));
    for (auto token : tokens) ids.push_back(token);
    for (size_t i = 0; i + 1 < ids.size(); ++i) labels.push_back(i + 1 < prompt.size() ? Json(data::kIgnore) : ids[i + 1]);
    labels.push_back(data::kIgnore);
    sequences.push_back({{"stop_reason", sequence["stop_reason"]},
                         {"tokens", tokens},
                         {"logprobs", logprobs},
                         {"decoded", served_.tokenizer->decode(tokens)},
                         {"new_input_feature", {{"input_ids", ids}, {"labels", labels}}}});
  }
  return {{"sequences", sequences}, {"prompt_logprobs", response.value("prompt_logprobs", Json())}};
}

void TwinkleApi::queue_samples(const Call& call, std::vector<AskedSample>& asked) {
  const auto body = body_of(call);
  const auto uri = text_field(body, "adapter_uri", "");
  if (uri.empty() && !text_field(body, "adapter_name", "").empty())
    throw RequestError(
        "adapter_name without adapter_uri: save the adapter with is_sampler=True and pass its twinkle_path as adapter_uri");
  std::optional<std::string> folder = "";
  if (!uri.empty() && !(folder = saved_adapter(services_, call.tenant, tinker_path(uri)))) throw not_found("checkpoint " + uri);
  auto params = body.value("sampling_params", Json::object());
  if (!params.is_object()) params = Json::object();
  const auto count = has_field(params, "num_samples") ? params["num_samples"] : body.value("num_samples", Json(1));
  for (auto& prompt : prompts(body.value("inputs", Json()), served_)) {
    Json chunk = {{"type", "encoded_text"}, {"tokens", prompt}};
    auto request = read_sample_request(
        {{"prompt", {{"chunks", Json::array({chunk})}}}, {"sampling_params", params}, {"num_samples", count}});
    const auto id = serve::fresh_id(kDirectSample);
    queue_sample(services_, call.tenant, services_.config.max_samples,
                 {.id = id, .request = std::move(request), .folder = *folder});
    asked.push_back({std::move(prompt), id});
  }
}

asio::awaitable<Json> TwinkleApi::samples_of(serve::Exchange& exchange, const Call& call, const std::vector<AskedSample>& asked) {
  Json samples = Json::array();
  for (const auto& each : asked) {
    while (true) {
      auto signal = services_.futures.watch(each.id);
      exchange.on_gone([signal] { signal->notify(); });
      services_.futures.note_poll(each.id, call.tenant);
      const auto known = services_.futures.sample(each.id, call.tenant);
      if (!known) throw serve::ApiError(410, "the sample is not kept any more");
      if (known->done && known->outcome.failed) throw serve::ApiError(400, known->outcome.body);
      if (known->done) {
        samples.push_back(sampled(each.prompt, sample_response_to_json(known->outcome.body)));
        break;
      }
      if (exchange.gone()) throw serve::ApiError(499, "the client disconnected");
      co_await signal->wait_until(serve::Clock::now() + kLookAgain);
    }
  }
  co_return samples;
}

// The ids are known only here: without a response, no client can ask for the samples.
asio::awaitable<Json> TwinkleApi::sample(serve::Exchange& exchange, const Call& call) {
  std::vector<AskedSample> asked;
  Json reply;
  try {
    co_await workers_.run([&] {
      queue_samples(call, asked);
      return true;
    });
    auto samples = co_await samples_of(exchange, call, asked);
    reply["samples"] = std::move(samples);
  } catch (...) {
    for (const auto& each : asked) cancel_sample(services_, call.tenant, each.id);
    throw;
  }
  co_return reply;
}

asio::awaitable<serve::HttpResponse> TwinkleApi::handle_sampler(serve::Exchange& exchange, const Call& call) {
  require_model(call);
  const auto verb = call.parts.at(1);
  Json reply = {{"status", "ok"}};
  if (verb == "sample")
    reply = co_await sample(exchange, call);
  else if (verb == "add_adapter_to_sampler")
    reply["adapter_name"] = adapter_name_in(body_of(call));
  else if (verb == "apply_patch" || verb == "sample_stream")
    refuse_call(verb, "sample returns complete answers; /v1/chat/completions streams");
  else if (verb != "create" && verb != "set_template")
    throw not_found("call " + verb);
  co_return serve::json_response(reply);
}

}  // namespace hone::tinker
