#include "hone/serve/rollout/rollout.h"

#include <algorithm>

#include "hone/base/fault_injection.h"
#include "hone/serve/chat/fetch_media.h"
#include "hone/serve/chat/task.h"
#include "hone/serve/rollout/rollout_media.h"
#include "hone/serve/rollout/weight_receiver.h"

namespace hone::serve {
namespace {

constexpr size_t kRolloutStops = 16, kRolloutStopBytes = 256;

struct RolloutTask {
  std::vector<engine::Request> requests;
  int64_t prompt_tokens = 0;
  bool logprobs = false;
  std::optional<int64_t> version;  // required version of the weights
};

engine::SamplingParams read_rollout_sampling(const Fields& fields, const Context& context) {
  auto sampling = context.served.defaults;
  sampling.temperature = fields.real("temperature", sampling.temperature);
  sampling.top_p = fields.real("top_p", sampling.top_p);
  sampling.top_k = std::max<int64_t>(0, fields.integer("top_k", sampling.top_k));
  sampling.min_p = fields.real("min_p", sampling.min_p);
  sampling.repetition_penalty = fields.real("repetition_penalty", sampling.repetition_penalty);
  sampling.max_tokens = fields.integer("max_tokens", 16);
  if (fields.has("stop")) sampling.stop = fields.texts("stop", kRolloutStops, kRolloutStopBytes);
  sampling.include_stop_str_in_output = fields.flag("include_stop_str_in_output", false);
  if (fields.has("eos_token_ids"))
    sampling.eos_token_ids = read_token_ids(fields.json("eos_token_ids"), "eos_token_ids", *context.served.tokenizer);
  if (fields.flag("logprobs", true)) sampling.logprobs = 0;
  if (sampling.temperature > 0) sampling.logprobs_temperature = sampling.temperature;
  return sampling;
}

// A field with one integer per prompt, at least `least`; empty if not given.
std::vector<uint64_t> read_numbers(const Fields& fields, const char* name, size_t prompts, uint64_t least) {
  const auto& list = fields.json(name);
  if (list.is_null()) return {};
  if (list.size() != prompts)
    bad_value(name, fmt::format("found {} for {} prompts; expected one for each", list.size(), prompts));
  std::vector<uint64_t> numbers;
  for (const auto& number : list) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() < least)
      bad_value(fmt::format("{}[{}]", name, numbers.size()),
                fmt::format("found {}; expected a whole number, {} or more", kind_name(number), least));
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

struct RolloutBody {
  Json fields;
  std::vector<RolloutMedia> media;
};

RolloutBody read_rollout_body(Json body, const ServedModel& served, MediaNeeds& needs) {
  RolloutBody found;
  for (const auto& media : Fields(kRollouts, body).json("media")) {
    found.media.push_back(read_rollout_media(media, fmt::format("media[{}]", found.media.size())));
    needs.add(found.media.back().conversation, served);
  }
  found.fields = std::move(body);
  return found;
}

RolloutTask read_rollout(const RolloutBody& body, const Context& context, const RequestMedia& request_media) {
  Fields fields(kRollouts, body.fields);
  RolloutTask task;
  const auto sampling = read_rollout_sampling(fields, context);
  task.logprobs = sampling.logprobs.has_value();
  const auto& prompts = fields.json("prompts");
  const auto seeds = read_numbers(fields, "seeds", prompts.size(), 0);
  const auto lengths = read_numbers(fields, "max_tokens_each", prompts.size(), 1);
  const auto media_each = read_numbers(fields, "media_each", prompts.size(), 0);
  if (media_each.empty() && fields.has("media")) bad_value("media_each", "expected the number of its media for each prompt");
  RolloutMediaReader media(body.media, context.served, request_media);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto where = fmt::format("prompts[{}]", i);
    if (!prompts[i].is_array()) bad_value(where, fmt::format("found {}; expected a list of token ids", kind_name(prompts[i])));
    engine::Request request{.prompt = read_token_ids(prompts[i], where, *context.served.tokenizer), .sampling = sampling};
    if (request.prompt.empty()) bad_value(where, "expected at least one token");
    if (!seeds.empty()) request.sampling.seed = seeds[i];
    if (!lengths.empty()) request.sampling.max_tokens = static_cast<int64_t>(std::min(lengths[i], kMostRolloutTokens));
    request.adapter = context.served.base_adapter;
    if (!media_each.empty()) request.images = media.of(media_each[i], request.prompt);
    task.prompt_tokens += static_cast<int64_t>(request.prompt.size());
    task.requests.push_back(std::move(request));
  }
  if (fields.has("weights_version")) task.version = fields.integer("weights_version", 0);
  return task;
}

// One completion in progress.
struct RolloutCompletion {
  std::vector<text::TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<int64_t> versions;  // per token
  std::string text;
  bool truncated = false;

  void take(const engine::RequestOutput& output) {
    for (auto token : output.tokens) tokens.push_back(token), versions.push_back(output.weights_version);
    for (const auto& position : output.logprobs) logprobs.push_back(position.chosen.logprob);
    text += output.text;
    truncated = output.finish == engine::FinishReason::length;
    // A token that ends the completion is a choice like any other.
    if (output.stop_token < 0 || (!tokens.empty() && tokens.back() == output.stop_token)) return;
    tokens.push_back(output.stop_token);
    versions.push_back(output.weights_version);
    if (output.eos_logprob) logprobs.push_back(*output.eos_logprob);
  }
};

Json completions_json(const std::vector<RolloutCompletion>& completions, bool logprobs) {
  Json reply{{"completion_ids", Json::array()},
             {"texts", Json::array()},
             {"truncated", Json::array()},
             {"weights_versions", Json::array()}};
  if (logprobs) reply["logprobs"] = Json::array();
  for (const auto& completion : completions) {
    reply["completion_ids"].push_back(completion.tokens);
    reply["texts"].push_back(completion.text);
    reply["truncated"].push_back(completion.truncated);
    reply["weights_versions"].push_back(completion.versions);
    if (logprobs) reply["logprobs"].push_back(completion.logprobs);
  }
  return reply;
}

io::ReceivedTensors read_weights(const std::string& body) {
  auto received = io::parse_safetensors_bytes(body);
  if (!received) throw ApiError(400, fmt::format("no safetensors: {}", received.error()), "", "invalid_weights");
  return std::move(*received);
}

int64_t version_of(const Context& context) { return context.weights ? context.weights->version() : 0; }

asio::awaitable<std::vector<RolloutCompletion>> follow(std::shared_ptr<Generation> generation, size_t count) {
  std::vector<RolloutCompletion> completions(count);
  while (!generation->finished() || generation->has_pending_events()) {
    auto events = co_await generation->next();
    if (generation->interrupted() && !generation->finished()) throw interruption();
    for (const auto& event : events) {
      if (event.output.finish == engine::FinishReason::error) throw failure_of(event);
      if (event.output.finish == engine::FinishReason::cancelled) throw interruption();
      completions[event.choice].take(event.output);
    }
  }
  co_return completions;
}

}  // namespace

asio::awaitable<void> generate_rollout(Exchange& exchange, Context& context) {
  const auto began = Clock::now();
  auto permit = context.enter(exchange);
  auto ready = co_await read_and_prepare(
      exchange, context, [&](MediaNeeds& needs) { return read_rollout_body(parsed_body(exchange), context.served, needs); },
      [&](const RolloutBody& body, const RequestMedia& media) { return read_rollout(body, context, media); });
  auto& task = ready.second;
  ready.first = {};
  exchange.drop_body();
  if (const auto present = version_of(context); task.version && *task.version != present)
    throw ApiError(409, fmt::format("the weights here are version {}, asked for was {}", present, *task.version),
                   "weights_version", "wrong_version");
  const auto count = task.requests.size();
  auto generation = context.admit(exchange, permit, std::move(task.requests));
  fault("rollout.generate");
  auto completions = co_await follow(std::move(generation), count);
  int64_t tokens = 0;
  for (const auto& completion : completions) tokens += static_cast<int64_t>(completion.tokens.size());
  context.metrics.finished(task.prompt_tokens, tokens, std::chrono::duration<double>(Clock::now() - began).count());
  auto response = co_await run_on_worker(context, [&] { return json_response(completions_json(completions, task.logprobs)); });
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> update_weights(Exchange& exchange, Context& context) {
  if (!context.weights)
    throw ApiError(403, "the weights of this server are fixed; `hone rollout` starts one that follows a trainer", "",
                   "not_enabled");
  const auto part = read_weight_part(exchange.request().query);
  auto permit = context.enter(exchange);
  auto received = co_await run_on_worker(context, [&] { return read_weights(exchange.request().body); });
  exchange.drop_body();
  permit.leave();
  co_await context.loop.call([&](engine::Engine& engine) { context.weights->receive(engine, part, received); });
  Json reply{{"weights_version", version_of(context)}};
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> engine_type(Exchange& exchange, Context& context) {
  Json reply{{"engine_type", "hone"},
             {"weights_version", version_of(context)},
             {"updates_weights", context.weights != nullptr},
             {"max_model_len", context.served.max_model_len},
             {"vocab_size", context.served.tokenizer->size()}};
  if (context.weights && !context.weights->scheduler().empty()) reply["multi_turn_scheduler"] = context.weights->scheduler();
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> world_size(Exchange& exchange, Context&) {
  Json reply{{"world_size", 1}};
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> reset_prefix_cache(Exchange& exchange, Context& context) {
  const auto version = version_of(context);
  co_await context.loop.call([version](engine::Engine& engine) { engine.update_weights(version); });
  Json reply{{"message", "the prefix cache is empty"}};
  co_await exchange.respond(json_response(reply));
}

}  // namespace hone::serve
