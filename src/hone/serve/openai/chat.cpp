#include "hone/serve/openai/chat.h"

#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/conversation.h"
#include "hone/serve/chat/media_parts.h"
#include "hone/serve/chat/running_chat.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/openai/pooling.h"

namespace hone::serve {
namespace {

Json call_json(const Choice::Call& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json message_json(const Choice& choice, bool legacy) {
  bool only_calls = choice.text.empty() && !choice.calls.empty();
  Json message{{"role", "assistant"}, {"content", only_calls ? Json() : Json(choice.text)}, {"refusal", nullptr}};
  if (!choice.thought.empty()) message["reasoning_content"] = choice.thought;
  if (choice.calls.empty()) return message;
  if (legacy) {
    message["function_call"] = {{"name", choice.calls[0].name}, {"arguments", choice.calls[0].arguments}};
    return message;
  }
  for (const auto& call : choice.calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

Json logprobs_json(const std::vector<engine::PositionLogprobs>& positions, bool asked, const text::TokenBytes& bytes) {
  if (!asked) return nullptr;
  Json content = Json::array();
  for (const auto& position : positions) content.push_back(chat_logprob(position, bytes));
  return {{"content", content}, {"refusal", nullptr}};
}

Json finish_of(const Choice& choice, bool legacy) {
  auto reason = finish_json(choice.finish, choice.parser.calls() > 0);
  return legacy && reason == "tool_calls" ? Json("function_call") : reason;
}

// Events are assembled as text: there is one per token of each stream, and building a JSON value would cost more than everything
// else.
class ChatEvents : public EventWriter {
 public:
  ChatEvents(const ChatTask& task, const ServedModel& served, const std::string& model) : task_(task), bytes_(*served.tokenizer) {
    Json head{{"id", fresh_id("chatcmpl-")}, {"object", "chat.completion.chunk"}, {"created", unix_time()}, {"model", model}};
    head_ = dump(head);
    head_.back() = ',';
  }

  void open(const ChoiceStream& choices, std::string& out) override {
    for (size_t i = 0; i < choices.size(); ++i) add(i, R"({"role":"assistant","content":""})", "null", "null", "null", out);
  }

  void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) override {
    const auto& choice = choices.at(news.choice);
    auto usage = task_.stream.usage_in_every_event ? dump(usage_json(choices.usage())) : "null";
    std::string logprobs = "null";
    bool asked = task_.sampling.logprobs.has_value();
    if (asked && !news.output->logprobs.empty()) logprobs = dump(logprobs_json(news.output->logprobs, true, bytes_));
    for (const auto& delta : news.deltas)
      add(news.choice, delta_text(delta, choice), std::exchange(logprobs, "null"), "null", usage, out);
    bool ended = news.output->finish != engine::FinishReason::none;
    if (ended || logprobs != "null")
      add(news.choice, "{}", logprobs, ended ? dump(finish_of(choice, task_.legacy_calls)) : "null", usage, out);
  }

  void close(const ChoiceStream& choices, std::string& out) override {
    if (task_.stream.usage_at_end)
      out += fmt::format("data: {}\"choices\":[],\"usage\":{}}}\n\n", head_, dump(usage_json(choices.usage())));
    out += kDone;
  }

  void fail(const ApiError& problem, std::string& out) override { out += event(problem_json(problem)); }

 private:
  std::string delta_text(const Delta& delta, const Choice& choice) const {
    switch (delta.kind) {
      case Delta::Kind::text:
        return fmt::format(R"({{"content":{}}})", dump(delta.text));
      case Delta::Kind::reasoning:
        return fmt::format(R"({{"reasoning_content":{}}})", dump(delta.text));
      case Delta::Kind::arguments:
        if (task_.legacy_calls) return fmt::format(R"({{"function_call":{{"arguments":{}}}}})", dump(delta.text));
        return fmt::format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}]}})", delta.call, dump(delta.text));
      case Delta::Kind::call:
        break;
    }
    if (task_.legacy_calls) return dump({{"function_call", {{"name", delta.text}, {"arguments", ""}}}});
    Json call = call_json({choice.calls[delta.call].id, delta.text, ""});
    call["index"] = delta.call;
    return dump({{"tool_calls", Json::array({call})}});
  }

  void add(size_t choice, std::string_view delta, std::string_view logprobs, std::string_view finish, std::string_view usage,
           std::string& out) const {
    fmt::format_to(std::back_inserter(out), R"(data: {}"choices":[{{"index":{},"delta":{},"logprobs":{},"finish_reason":{}}}])",
                   head_, choice, delta, logprobs, finish);
    if (task_.stream.usage_at_end || task_.stream.usage_in_every_event)
      fmt::format_to(std::back_inserter(out), ",\"usage\":{}", usage);
    out += "}\n\n";
  }

  const ChatTask& task_;
  const text::TokenBytes bytes_;
  std::string head_;  // an event up to its choices
};

void read_thinking(const Fields& fields, ChatTask& task) {
  Json values = fields.has("chat_template_kwargs") ? read_template_values(fields.json("chat_template_kwargs")) : Json::object();
  if (fields.text("reasoning_effort") == "none") values["enable_thinking"] = false;
  if (!values.empty()) task.conversation.extra["chat_template_kwargs"] = std::move(values);
}

void read_logprobs(const Fields& fields, const ServedModel& served, ChatTask& task) {
  int64_t top = fields.integer("top_logprobs", 0);
  if (top > served.max_logprobs)
    bad_value("top_logprobs", fmt::format("found {}; this server returns at most {}", top, served.max_logprobs));
  if (fields.flag("logprobs", false))
    task.sampling.logprobs = top;
  else if (top > 0)
    bad_value("top_logprobs", "requires logprobs true");
}

}  // namespace

Json chat_json(const ChatTask& task, const std::string& model, std::span<const Choice> generated, const Usage& usage,
               const text::Tokenizer& tokenizer) {
  const text::TokenBytes bytes(tokenizer);
  Json choices = Json::array();
  for (const auto& choice : generated) {
    choices.push_back({{"index", choices.size()},
                       {"message", message_json(choice, task.legacy_calls)},
                       {"logprobs", logprobs_json(choice.logprobs, task.sampling.logprobs.has_value(), bytes)},
                       {"finish_reason", finish_of(choice, task.legacy_calls)}});
    if (!choice.stop_string.empty()) choices.back()["stop_reason"] = choice.stop_string;
  }
  Json body{{"id", fresh_id("chatcmpl-")},   {"object", "chat.completion"}, {"created", unix_time()}, {"model", model},
            {"choices", std::move(choices)}, {"usage", usage_json(usage)}};
  if (task.sampling.prompt_logprobs) body["prompt_logprobs"] = prompt_logprobs_json(generated[0].prompt_logprobs, bytes);
  return body;
}

asio::awaitable<void> chat_completions(Exchange& exchange, Context& context) {
  if (context.served.pool) {
    co_await pooling_chat(exchange, context);
    co_return;
  }
  auto chat = co_await start_chat(exchange, context, read_chat);
  if (chat->task.stream.on) {
    ChatEvents events(chat->task, context.served, chat->model);
    co_await send_events(exchange, context, chat->choices, events);
  } else {
    co_await chat->choices.finish();
    const auto& choices = chat->choices;
    auto response = co_await run_inline_or_on_worker(context, choices.parts(), [&] {
      return json_response(chat_json(chat->task, chat->model, choices.all(), choices.usage(), *context.served.tokenizer));
    });
    co_await exchange.respond(std::move(response));
  }
  keep_result(context, chat->task.conversation, chat->choices, chat->model);
}

ChatTask read_chat(const Json& body, const ServedModel& served) {
  Fields fields(kChat, body);
  ChatTask task;
  task.model = fields.text("model");
  task.user = fields.text("user");
  task.conversation = read_messages(fields.json("messages"));
  for (const char* kind : {"images", "videos", "audios"})
    if (fields.has(kind)) add_listed_media(fields.json(kind), kind, task.conversation);
  if (fields.has("modalities"))
    for (const auto& kind : fields.json("modalities"))
      if (kind == "audio") bad_value("modalities", "only text output is supported; expected [\"text\"]");
  if (fields.has("tools") && fields.has("functions")) bad_value("functions", "the older form of tools; give one of them");
  if (fields.has("tools")) task.tools = read_tools(fields.json("tools"), "tools", false);
  if (fields.has("functions")) task.tools = read_tools(fields.json("functions"), "functions", true);
  task.tool_choice = read_tool_choice(fields.json(fields.has("functions") ? "function_call" : "tool_choice"), task.tools);
  read_sampling(fields, served, task.sampling);
  read_search(fields, served, task.sampling);
  if (!fields.flag("do_sample", true)) task.sampling.temperature = 0;
  read_logprobs(fields, served, task);
  task.shape = read_response_format(fields, kChat);
  if (fields.has("max_completion_tokens"))
    task.max_tokens = fields.integer("max_completion_tokens", 0);
  else if (fields.has("max_tokens"))
    task.max_tokens = fields.integer("max_tokens", 0);
  task.n = fields.integer("n", 1);
  task.priority = fields.integer("priority", 0);
  task.separate_reasoning = fields.flag("separate_reasoning", true);
  task.single_tool_call = !fields.flag("parallel_tool_calls", true);
  task.legacy_calls = fields.has("functions");
  task.stream = read_stream(fields);
  read_thinking(fields, task);
  return task;
}

}  // namespace hone::serve
