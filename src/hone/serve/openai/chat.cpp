#include "hone/serve/openai/chat.h"

#include "hone/serve/chat/event_stream.h"
#include "hone/serve/chat/running_chat.h"
#include "hone/serve/openai/pooling.h"

namespace hone::serve {
namespace {

Json call_json(const Answer::Call& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json message_json(const Answer& answer, bool legacy) {
  bool only_calls = answer.text.empty() && !answer.calls.empty();
  Json message{{"role", "assistant"}, {"content", only_calls ? Json() : Json(answer.text)}, {"refusal", nullptr}};
  if (!answer.thought.empty()) message["reasoning_content"] = answer.thought;
  if (answer.calls.empty()) return message;
  if (legacy) {
    message["function_call"] = {{"name", answer.calls[0].name}, {"arguments", answer.calls[0].arguments}};
    return message;
  }
  for (const auto& call : answer.calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

Json logprobs_json(const std::vector<engine::PositionLogprobs>& positions, bool asked, const text::TokenBytes& bytes) {
  if (!asked) return nullptr;
  Json content = Json::array();
  for (const auto& position : positions) content.push_back(chat_logprob(position, bytes));
  return {{"content", content}, {"refusal", nullptr}};
}

Json finish_of(const Answer& answer, bool legacy) {
  auto reason = finish_json(answer.finish, answer.parser.calls() > 0);
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

  void open(const ChoiceStream& answers, std::string& out) override {
    for (size_t i = 0; i < answers.size(); ++i) add(i, R"({"role":"assistant","content":""})", "null", "null", "null", out);
  }

  void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& answers, std::string& out) override {
    const auto& answer = answers.answer(news.choice);
    auto usage = task_.stream.usage_in_every_event ? dump(usage_json(answers.usage())) : "null";
    std::string logprobs = "null";
    bool asked = task_.sampling.logprobs.has_value();
    if (asked && !news.output->logprobs.empty()) logprobs = dump(logprobs_json(news.output->logprobs, true, bytes_));
    for (const auto& delta : news.deltas)
      add(news.choice, delta_text(delta, answer), std::exchange(logprobs, "null"), "null", usage, out);
    bool ended = news.output->finish != engine::FinishReason::none;
    if (ended || logprobs != "null")
      add(news.choice, "{}", logprobs, ended ? dump(finish_of(answer, task_.legacy_calls)) : "null", usage, out);
  }

  void close(const ChoiceStream& answers, std::string& out) override {
    if (task_.stream.usage_at_end)
      out += fmt::format("data: {}\"choices\":[],\"usage\":{}}}\n\n", head_, dump(usage_json(answers.usage())));
    out += kDone;
  }

  void fail(const ApiError& problem, std::string& out) override {
    out += event(problem_json(problem));
    out += kDone;
  }

 private:
  std::string delta_text(const Delta& delta, const Answer& answer) const {
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
    Json call = call_json({answer.calls[delta.call].id, delta.text, ""});
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

}  // namespace

Json chat_json(const ChatTask& task, const std::string& model, std::span<const Answer> answers, const Usage& usage,
               const text::Tokenizer& tokenizer) {
  const text::TokenBytes bytes(tokenizer);
  Json choices = Json::array();
  for (const auto& answer : answers) {
    choices.push_back({{"index", choices.size()},
                       {"message", message_json(answer, task.legacy_calls)},
                       {"logprobs", logprobs_json(answer.logprobs, task.sampling.logprobs.has_value(), bytes)},
                       {"finish_reason", finish_of(answer, task.legacy_calls)}});
    if (!answer.stop_string.empty()) choices.back()["stop_reason"] = answer.stop_string;
  }
  Json body{{"id", fresh_id("chatcmpl-")},   {"object", "chat.completion"}, {"created", unix_time()}, {"model", model},
            {"choices", std::move(choices)}, {"usage", usage_json(usage)}};
  if (task.sampling.prompt_logprobs) body["prompt_logprobs"] = prompt_logprobs_json(answers[0].prompt_logprobs, bytes);
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
    co_await send_events(exchange, context, chat->answers, events);
  } else {
    co_await chat->answers.finish();
    const auto& answers = chat->answers;
    auto response = co_await run_inline_or_on_worker(context, answers.parts(), [&] {
      return json_response(chat_json(chat->task, chat->model, answers.all(), answers.usage(), *context.served.tokenizer));
    });
    co_await exchange.respond(std::move(response));
  }
  keep_result(context, chat->task.conversation, chat->answers, chat->model);
}

}  // namespace hone::serve
