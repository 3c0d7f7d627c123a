#include "hone/serve/openai/pooling.h"

#include <algorithm>
#include <numeric>

#include "hone/data/encode/pooling_rows.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/openai/chat.h"

namespace hone::serve {
namespace {

constexpr size_t kTokensPerCall = 2048;  // texts that the engine's thread scores between two steps

using Texts = std::vector<std::vector<text::TokenId>>;

std::vector<text::TokenId> tokens_of(const data::Conversation& conversation, const ServedModel& served,
                                     const std::string& where) {
  refuse_overlong(conversation, served, where);
  auto sample = data::encode_pooling_tokens(*served.encoder, conversation);
  if (!sample) bad_value(where, sample.error());
  if (static_cast<int64_t>(sample->ids.size()) > served.max_model_len)
    throw ApiError(400,
                   fmt::format("{} has {} tokens; the model's context holds {}", where, sample->ids.size(), served.max_model_len),
                   where, "context_length_exceeded");
  return std::move(sample->ids);
}

// A query and a document, in the format that a reranker was trained on.
std::vector<text::TokenId> pooled_pair(const std::string& question, const std::string& candidate, const ServedModel& served,
                                       const std::string& where) {
  data::Conversation pair;
  pair.messages = {{"user", question, {}, {}, nullptr}, {"assistant", candidate, {}, {}, nullptr}};
  return tokens_of(pair, served, where);
}

void require_pooling_model(const Context& context, PoolingTask wanted) {
  if (context.served.pooling_task == wanted) return;
  throw ApiError(400,
                 fmt::format("{} {}", context.served.name,
                             wanted == PoolingTask::classification ? "names no classes; serve a model of task_type seq_cls"
                                                                   : "gives no relevance; serve a reranker"),
                 "", "wrong_task");
}

int64_t count_tokens(const Texts& texts) {
  return std::accumulate(texts.begin(), texts.end(), int64_t{0},
                         [](int64_t sum, const auto& text) { return sum + static_cast<int64_t>(text.size()); });
}

// In several calls, so that other requests continue in between. None: the client is gone.
asio::awaitable<std::optional<std::vector<PoolingOutput>>> pooled(Exchange& exchange, Context& context, Admission::Permit& permit,
                                                                  const Texts& texts, int64_t top_n) {
  exchange.drop_body();
  permit.hold_tokens(static_cast<size_t>(count_tokens(texts)));
  std::vector<PoolingOutput> outputs;
  for (size_t first = 0; first < texts.size();) {
    if (exchange.gone()) co_return std::nullopt;
    size_t last = first, tokens = 0;
    while (last < texts.size() && (last == first || tokens + texts[last].size() <= kTokensPerCall))
      tokens += texts[last++].size();
    Texts some(texts.begin() + static_cast<ptrdiff_t>(first), texts.begin() + static_cast<ptrdiff_t>(last));
    co_await context.loop.call([&](engine::Engine&) {
      auto found = context.served.pool(some, top_n);
      for (const auto& output : found) context.loop.require_numbers(output.scores);
      std::ranges::move(found, std::back_inserter(outputs));
    });
    first = last;
  }
  permit.leave();
  co_return outputs;
}

Json usage_of(const Texts& texts) { return {{"prompt_tokens", count_tokens(texts)}, {"total_tokens", count_tokens(texts)}}; }

// vLLM's response: one entry per text.
Json list_reply(const char* id, const Context& context, Json data, const Texts& texts) {
  return {{"id", fresh_id(id)},           {"object", "list"},        {"created", unix_time()},
          {"model", context.served.name}, {"data", std::move(data)}, {"usage", usage_of(texts)}};
}

struct PoolingChat {
  std::string model, user;
  Texts texts;
  int64_t top_n = 0;
};

PoolingChat read_pooling_chat(const Json& body, const ServedModel& served) {
  auto task = read_chat(body, served);
  if (task.stream.on) bad_value("stream", "pooling responses are not streamed");
  return {task.model, task.user, {tokens_of(task.conversation, served, "messages")}, task.sampling.logprobs.value_or(0)};
}

struct RankingTask {
  Texts texts;
  std::vector<std::string> documents;
  size_t most = 0;
  bool shows_documents = true;
};

RankingTask read_rerank(const Json& body, const ServedModel& served) {
  Fields fields(kRerank, body);
  RankingTask task{.documents = fields.texts("documents", kMostTexts, kMostTextBytes),
                   .shows_documents = fields.flag("return_documents", true)};
  task.most = static_cast<size_t>(fields.integer("top_n", static_cast<int64_t>(task.documents.size())));
  for (size_t i = 0; i < task.documents.size(); ++i)
    task.texts.push_back(pooled_pair(fields.text("query"), task.documents[i], served, fmt::format("documents[{}]", i)));
  return task;
}

// One text against several, or pairwise for lists of equal length.
Texts read_score(const Json& body, const ServedModel& served) {
  Fields fields(kScorePairs, body);
  auto first = fields.texts("text_1", kMostTexts, kMostTextBytes), second = fields.texts("text_2", kMostTexts, kMostTextBytes);
  if (first.size() != 1 && first.size() != second.size())
    bad_value("text_2", fmt::format("found {} texts; expected as many as text_1 has, {}", second.size(), first.size()));
  Texts texts;
  for (size_t i = 0; i < second.size(); ++i)
    texts.push_back(pooled_pair(first[first.size() == 1 ? 0 : i], second[i], served, fmt::format("text_2[{}]", i)));
  return texts;
}

Texts read_score_texts(const Json& body, const ServedModel& served) {
  Fields fields(kScoreTexts, body);
  const auto most = static_cast<size_t>(std::min(fields.integer("max_length", served.max_model_len), served.max_model_len));
  Texts texts;
  for (const auto& text : fields.texts("messages", kMostTexts, kMostTextBytes)) {
    auto ids = served.tokenizer->encode(text);
    if (ids.empty()) bad_value(fmt::format("messages[{}]", texts.size()), "the text is empty");
    ids.resize(std::min(ids.size(), most));
    texts.push_back(std::move(ids));
  }
  return texts;
}

Texts read_classify(const Json& body, const ServedModel& served) {
  Fields fields(kClassify, body);
  Texts texts;
  for (const auto& text : fields.texts("input", kMostTexts, kMostTextBytes))
    texts.push_back(encode_pooling_text(text, served, fmt::format("input[{}]", texts.size())));
  return texts;
}

}  // namespace

std::vector<text::TokenId> encode_pooling_text(const std::string& text, const ServedModel& served, const std::string& where) {
  data::Conversation alone;
  alone.messages = {{"user", text, {}, {}, nullptr}};
  return tokens_of(alone, served, where);
}

asio::awaitable<void> pooling_chat(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto chat = co_await run_on_worker(context, [&] { return read_pooling_chat(parsed_body(exchange), context.served); });
  exchange.set_user(chat.user);
  auto target = context.target_of(chat.model);
  auto found = co_await pooled(exchange, context, permit, chat.texts, chat.top_n);
  if (!found) co_return;
  auto& outputs = *found;
  Json message{{"role", "assistant"}, {"content", outputs[0].content}};
  Json choice{{"index", 0}, {"message", message}, {"logprobs", outputs[0].logprobs}, {"finish_reason", "stop"}};
  Json reply{{"id", fresh_id("chatcmpl-")}, {"object", "chat.completion"}, {"created", unix_time()}, {"model", target.name}};
  reply["choices"] = Json::array({choice});
  reply["usage"] = usage_json({.prompt = count_tokens(chat.texts), .completion = 1});
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> classify(Exchange& exchange, Context& context) {
  require_pooling_model(context, PoolingTask::classification);
  auto permit = context.enter(exchange);
  auto texts = co_await run_on_worker(context, [&] { return read_classify(parsed_body(exchange), context.served); });
  auto found = co_await pooled(exchange, context, permit, texts, 0);
  if (!found) co_return;
  auto& outputs = *found;
  Json data = Json::array();
  for (const auto& output : outputs)
    data.push_back(
        {{"index", data.size()}, {"label", output.content}, {"probs", output.scores}, {"num_classes", output.scores.size()}});
  co_await exchange.respond(json_response(list_reply("classify-", context, std::move(data), texts)));
}

asio::awaitable<void> rerank(Exchange& exchange, Context& context) {
  require_pooling_model(context, PoolingTask::reranking);
  auto permit = context.enter(exchange);
  auto task = co_await run_on_worker(context, [&] { return read_rerank(parsed_body(exchange), context.served); });
  auto found = co_await pooled(exchange, context, permit, task.texts, 0);
  if (!found) co_return;
  auto& outputs = *found;
  std::vector<size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return outputs[a].scores[0] > outputs[b].scores[0]; });
  Json results = Json::array();
  for (size_t i = 0; i < std::min(task.most, order.size()); ++i) {
    results.push_back({{"index", order[i]}, {"relevance_score", outputs[order[i]].scores[0]}});
    if (task.shows_documents) results.back()["document"] = {{"text", task.documents[order[i]]}};
  }
  Json reply{{"id", fresh_id("rerank-")},
             {"model", context.served.name},
             {"usage", {{"total_tokens", count_tokens(task.texts)}}},
             {"results", results}};
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> score_pairs(Exchange& exchange, Context& context) {
  require_pooling_model(context, PoolingTask::reranking);
  auto permit = context.enter(exchange);
  auto texts = co_await run_on_worker(context, [&] { return read_score(parsed_body(exchange), context.served); });
  auto found = co_await pooled(exchange, context, permit, texts, 0);
  if (!found) co_return;
  auto& outputs = *found;
  Json data = Json::array();
  for (const auto& output : outputs) data.push_back({{"index", data.size()}, {"object", "score"}, {"score", output.scores[0]}});
  co_await exchange.respond(json_response(list_reply("score-", context, std::move(data), texts)));
}

asio::awaitable<void> score_texts(Exchange& exchange, Context& context) {
  if (context.served.pooling_task != PoolingTask::classification)
    throw ApiError(
        405,
        fmt::format("{} is a generative model and outputs no scores; chat with it at /v1/chat/completions", context.served.name),
        "", "not_a_reward_model");
  auto permit = context.enter(exchange);
  auto texts = co_await run_on_worker(context, [&] { return read_score_texts(parsed_body(exchange), context.served); });
  auto found = co_await pooled(exchange, context, permit, texts, 0);
  if (!found) co_return;
  Json scores = Json::array();
  for (const auto& output : *found) {
    if (output.scores.size() != 1)
      throw ApiError(405, fmt::format("{} names classes; ask it at /v1/classify", context.served.name), "", "not_a_reward_model");
    scores.push_back(output.scores[0]);
  }
  Json reply{{"id", fresh_id("scoreval-")},
             {"object", "score.evaluation"},
             {"model", context.served.name},
             {"scores", std::move(scores)}};
  co_await exchange.respond(json_response(reply));
}

}  // namespace hone::serve
