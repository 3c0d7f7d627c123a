#include "hone/serve/openai/embeddings.h"

#include <algorithm>
#include <cmath>

#include "hone/base/strings/base64.h"
#include "hone/base/strings/percent.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/serve/openai/completions.h"
#include "hone/serve/openai/embed_model.h"
#include "hone/serve/openai/pooling.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

struct EmbeddingTask {
  std::string model, user;
  std::vector<std::vector<text::TokenId>> inputs;
  Pooling pooling;
  size_t dimensions = 0;  // 0: all
  bool base64 = false;
};

EmbeddingTask read_embedding(const Json& body, const ServedModel& served) {
  Fields fields(kEmbedding, body);
  EmbeddingTask task{.model = fields.text("model"),
                     .user = fields.text("user"),
                     .pooling = served.embedding.pooling,
                     .dimensions = static_cast<size_t>(fields.integer("dimensions", 0))};
  if (fields.integer("dimensions", 0) > served.embedding_width)
    bad_value("dimensions",
              fmt::format("found {}; this model's vectors have {} numbers", task.dimensions, served.embedding_width));
  auto format = fields.text("encoding_format", "float");
  if (format != "float" && format != "base64") bad_value("encoding_format", "expected float or base64");
  task.base64 = format == "base64";
  if (fields.has("pooling")) {
    auto known = pooling_named(fields.text("pooling"));
    if (!known) bad_value("pooling", "expected last, cls, mean, max, weightedmean or mean_sqrt_len");
    task.pooling = *known;
  }
  const auto& input = fields.json("input");
  bool words = input.is_string() || (input.is_array() && !input.empty() && input[0].is_string());
  if (served.pooling_task == PoolingTask::embedding && words)  // trained on texts rendered with the model's template
    for (const auto& text : fields.texts("input", kMostTexts, kMostTextBytes))
      task.inputs.push_back(encode_pooling_text(text, served, fmt::format("input[{}]", task.inputs.size())));
  else
    task.inputs = read_prompts(input, "input", kMostTexts, fields.flag("add_special_tokens", true), served);
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    auto size = static_cast<int64_t>(task.inputs[i].size());
    if (size == 0) bad_value(fmt::format("input[{}]", i), "found no tokens; expected 1 or more");
    if (size > served.max_model_len)
      throw ApiError(400, fmt::format("input[{}] has {} tokens; the model's context holds {}", i, size, served.max_model_len),
                     "input", "context_length_exceeded");
  }
  return task;
}

void shorten(std::vector<float>& vector, size_t dimensions) {
  if (dimensions > 0 && dimensions < vector.size()) vector.resize(dimensions);
}

void make_unit(std::vector<float>& vector) {
  double sum = 0;
  for (float value : vector) sum += static_cast<double>(value) * value;
  for (float& value : vector) value = static_cast<float>(value / std::sqrt(std::max(sum, 1e-24)));
}

// Little-endian float32, as OpenAI's clients unpack it.
std::string base64(const std::vector<float>& vector) {
  return encode_base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
}

std::vector<float> finished(std::vector<float> vector, const EmbeddingTask& task, const ServedModel& served) {
  shorten(vector, task.dimensions);
  if (served.embedding.unit) make_unit(vector);
  return vector;
}

// The adapter may have been unloaded between two chunks.
bool step_with(const engine::Engine& engine, const std::string& adapter, ChunkedEmbedding& pass) {
  if (!adapter.empty() && !std::ranges::count(engine.adapters(), adapter))
    throw ApiError(404, "the adapter was unloaded", "model", "model_not_found");
  return pass.step();
}

Json embeddings_json(const EmbeddingTask& task, const std::vector<std::vector<float>>& vectors, const std::string& model,
                     size_t tokens) {
  Json data = Json::array();
  for (const auto& vector : vectors)
    data.push_back(
        {{"object", "embedding"}, {"index", data.size()}, {"embedding", task.base64 ? Json(base64(vector)) : Json(vector)}});
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

Json model_json(const std::string& name, const ServedModel& served, const std::string& root, int64_t created) {
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", served.owned_by},
          {"root", root},
          {"parent", name == served.name ? Json() : Json(served.name)},
          {"max_model_len", served.max_model_len}};
}

}  // namespace

asio::awaitable<void> embeddings(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto task = co_await run_on_worker(context, [&] { return read_embedding(parsed_body(exchange), context.served); });
  exchange.drop_body();
  exchange.set_user(task.user);
  auto target = context.target_of(task.model);
  size_t tokens = 0;
  for (const auto& input : task.inputs) tokens += input.size();
  permit.hold_tokens(tokens);
  std::vector<std::vector<float>> vectors;
  for (auto& input : task.inputs) {
    std::unique_ptr<ChunkedEmbedding> pass;
    for (bool more = true; more;) {
      if (exchange.gone()) co_return;
      co_await context.loop.call([&](engine::Engine& engine) {
        if (!pass) pass = context.served.embed(std::move(input), task.pooling, target.adapter);
        more = step_with(engine, target.adapter, *pass);
        if (!more) context.loop.require_numbers(pass->vector());
      });
    }
    vectors.push_back(finished(pass->vector(), task, context.served));
  }
  permit.leave();
  auto numbers = vectors.size() * vectors[0].size();
  auto response = co_await run_inline_or_on_worker(
      context, numbers, [&] { return json_response(embeddings_json(task, vectors, target.name, tokens)); });
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> models(Exchange& exchange, Context& context) {
  constexpr std::string_view kPrefix = "/v1/models/";
  Json list = Json::array({model_json(context.served.name, context.served, context.served.name, context.served.created)});
  for (const auto& [name, entry] : context.adapters.entries())
    list.push_back(model_json(name, context.served, name, entry.created));
  const auto& path = exchange.request().path;
  if (!path.starts_with(kPrefix)) {
    Json reply = asks_as_anthropic(exchange.request()) ? anthropic_models(list) : Json{{"object", "list"}, {"data", list}};
    co_await exchange.respond(json_response(reply));
    co_return;
  }
  auto wanted = percent_decoded(std::string_view(path).substr(kPrefix.size()));
  if (!wanted) throw ApiError(400, "the path has a % without two hexadecimal digits after it", "model", "invalid_value");
  auto target = context.target_of(*wanted);
  for (const auto& model : list) {
    if (model["id"] != target.name) continue;
    auto reply = asks_as_anthropic(exchange.request()) ? anthropic_model(model) : model;
    co_await exchange.respond(json_response(reply));
  }
}

}  // namespace hone::serve
