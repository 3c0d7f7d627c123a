#include "hone/serve/openai/infer.h"

#include <algorithm>

#include "hone/serve/chat/fetch_media.h"
#include "hone/serve/openai/chat.h"

namespace hone::serve {
namespace {

struct InferItem {
  ChatTask task;
  PreparedChat prepared = {};
  Context::Target target = {};
};

// ms-swift's clients send every field; unused ones are null, an empty list or, for return_details, false.
bool says_nothing(const std::string& name, const Json& value) {
  return value.empty() || (name == "return_details" && value == false);
}

// One of the requests as a chat body: the shared settings and its own fields.
Json chat_body(const Json& request, const Json& settings, const std::string& where) {
  if (!request.is_object()) bad_value(where, fmt::format("found {}; expected an object with messages", kind_name(request)));
  Json body = Json::object();
  for (const auto* part : {&settings, &request})
    for (const auto& [name, value] : part->items())
      if (!says_nothing(name, value)) body[name] = value;
  return body;
}

// Runs `work`, whose errors then name the request.
template <class Work>
auto about_request(size_t index, Work work) {
  try {
    return work();
  } catch (const ApiError& problem) {
    throw ApiError(problem.status, fmt::format("infer_requests[{}]: {}", index, problem.message), problem.param, problem.code);
  }
}

std::vector<InferItem> read_infer(const Json& body, const ServedModel& served, MediaNeeds& needs) {
  Fields fields(kInfer, body);
  const auto& settings = fields.json("request_config");
  std::vector<InferItem> items;
  for (const auto& request : fields.json("infer_requests"))
    items.push_back(about_request(items.size(), [&] {
      auto where = fmt::format("infer_requests[{}]", items.size());
      auto task = read_chat(chat_body(request, settings.is_null() ? Json::object() : settings, where), served);
      if (task.stream.on) bad_value("request_config.stream", "a list of requests is not streamed");
      check_lengths(task, served);
      needs.add(task.conversation, served);
      return InferItem{std::move(task)};
    }));
  return items;
}

std::vector<PreparedChat> prepare_items(const std::vector<InferItem>& items, const ServedModel& served,
                                        const RequestMedia& media) {
  std::vector<PreparedChat> prepared;
  for (const auto& item : items)
    prepared.push_back(about_request(prepared.size(), [&] { return prepare_chat(item.task, served, media); }));
  return prepared;
}

Json replies_to(const std::vector<InferItem>& items, const ChoiceStream& choices, const text::Tokenizer& tokenizer) {
  Json replies = Json::array();
  size_t first = 0;
  for (const auto& item : items) {
    auto count = static_cast<size_t>(item.task.n);
    auto own = choices.all().subspan(std::exchange(first, first + count), count);
    Usage usage{.prompt = item.prepared.prompt_tokens};
    for (const auto& choice : own) usage.completion += choice.tokens;
    replies.push_back(chat_json(item.task, item.target.name, own, usage, tokenizer));
  }
  return replies;
}

}  // namespace

asio::awaitable<void> infer(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto ready = co_await read_and_prepare(
      exchange, context, [&](MediaNeeds& needs) { return read_infer(parsed_body(exchange), context.served, needs); },
      [&](const std::vector<InferItem>& found, const RequestMedia& media) {
        return prepare_items(found, context.served, media);
      });
  auto& items = ready.first;
  for (size_t i = 0; i < items.size(); ++i) items[i].prepared = std::move(ready.second[i]);
  exchange.drop_body();
  exchange.set_user(items[0].task.user);  // they come from one client
  std::vector<engine::Request> requests;
  std::vector<OutputParser::Config> parsers;
  int64_t prompt_tokens = 0;
  for (auto& item : items) {
    item.target = context.target_of(item.task.model);
    for (auto& request : item.prepared.requests) request.adapter = item.target.adapter;
    std::ranges::move(item.prepared.requests, std::back_inserter(requests));
    parsers.insert(parsers.end(), static_cast<size_t>(item.task.n), item.prepared.parser);
    prompt_tokens += item.prepared.prompt_tokens;
  }
  auto generation = context.admit(exchange, permit, std::move(requests));
  ChoiceStream choices(context, std::move(generation), parsers, prompt_tokens, true);
  co_await choices.finish();
  auto response = co_await run_inline_or_on_worker(
      context, choices.parts(), [&] { return json_response(replies_to(items, choices, *context.served.tokenizer)); });
  co_await exchange.respond(std::move(response));
}

}  // namespace hone::serve
