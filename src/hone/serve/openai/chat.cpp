#include "hone/serve/openai/chat.h"

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

Json logprobs_json(const std::vector<engine::PositionLogprobs>& positions, bool asked, const text::Tokenizer& tokenizer) {
  if (!asked) return nullptr;
  Json content = Json::array();
  for (const auto& position : positions) content.push_back(chat_logprob(position, tokenizer));
  return {{"content", content}, {"refusal", nullptr}};
}

Json finish_of(const Answer& answer, bool legacy) {
  auto reason = finish_json(answer.finish, !answer.calls.empty());
  return legacy && reason == "tool_calls" ? Json("function_call") : reason;
}

// What stays the same in every event of one stream, and the way one is written. Events are put together as text: there is one for each
// token of each stream, and building a JSON value for it would cost more than all the rest.
class ChatStream {
 public:
  ChatStream(const ChatTask& task, const ServedModel& served, const std::string& model, bool logprobs) : task_(task), served_(served), logprobs_(logprobs) {
    Json head{{"id", fresh_id("chatcmpl-")}, {"object", "chat.completion.chunk"}, {"created", unix_time()}, {"model", model}};
    head_ = dump(head);
    head_.back() = ',';
  }

  std::string opening(size_t choices) const {
    std::string out;
    for (size_t i = 0; i < choices; ++i) add(i, R"({"role":"assistant","content":""})", "null", "null", "null", out);
    return out;
  }

  void news(const Answers::News& news, const Answers& answers, std::string& out) const {
    const auto& answer = answers.answer(news.choice);
    auto usage = task_.usage_in_every_event ? dump(usage_json(answers.usage())) : "null";
    std::string logprobs = "null";
    if (logprobs_ && !news.output->logprobs.empty()) logprobs = dump(logprobs_json(news.output->logprobs, true, *served_.tokenizer));
    for (const auto& delta : news.deltas) add(news.choice, delta_text(delta, answer), std::exchange(logprobs, "null"), "null", usage, out);
    bool ended = news.output->finish != engine::FinishReason::none;
    if (ended || logprobs != "null") add(news.choice, "{}", logprobs, ended ? dump(finish_of(answer, task_.legacy_calls)) : "null", usage, out);
  }

  std::string usage(const Usage& usage) const { return fmt::format("data: {}\"choices\":[],\"usage\":{}}}\n\n", head_, dump(usage_json(usage))); }

 private:
  std::string delta_text(const Delta& delta, const Answer& answer) const {
    switch (delta.kind) {
      case Delta::Kind::text: return fmt::format(R"({{"content":{}}})", dump(delta.text));
      case Delta::Kind::thought: return fmt::format(R"({{"reasoning_content":{}}})", dump(delta.text));
      case Delta::Kind::arguments:
        if (task_.legacy_calls) return fmt::format(R"({{"function_call":{{"arguments":{}}}}})", dump(delta.text));
        return fmt::format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}]}})", delta.call, dump(delta.text));
      case Delta::Kind::call: break;
    }
    if (task_.legacy_calls) return dump({{"function_call", {{"name", delta.text}, {"arguments", ""}}}});
    Json call = call_json({answer.calls[delta.call].id, delta.text, ""});
    call["index"] = delta.call;
    return dump({{"tool_calls", Json::array({call})}});
  }

  void add(size_t choice, std::string_view delta, std::string_view logprobs, std::string_view finish, std::string_view usage, std::string& out) const {
    fmt::format_to(std::back_inserter(out), R"(data: {}"choices":[{{"index":{},"delta":{},"logprobs":{},"finish_reason":{}}}])", head_, choice, delta, logprobs, finish);
    if (task_.include_usage || task_.usage_in_every_event) fmt::format_to(std::back_inserter(out), ",\"usage\":{}", usage);
    out += "}\n\n";
  }

  const ChatTask& task_;
  const ServedModel& served_;
  bool logprobs_;
  std::string head_;  // an event up to its choices
};

asio::awaitable<void> send_whole(Exchange& exchange, Context& context, const ChatTask& task, Answers& answers, const std::string& model) {
  bool logprobs = task.sampling.logprobs.has_value();
  co_await answers.finish();
  Json choices = Json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto& answer = answers.answer(i);
    choices.push_back({{"index", i},
                       {"message", message_json(answer, task.legacy_calls)},
                       {"logprobs", logprobs_json(answer.logprobs, logprobs, *context.served.tokenizer)},
                       {"finish_reason", finish_of(answer, task.legacy_calls)}});
    if (!answer.stop_string.empty()) choices.back()["stop_reason"] = answer.stop_string;
  }
  Json body{{"id", fresh_id("chatcmpl-")}, {"object", "chat.completion"}, {"created", unix_time()}, {"model", model},
            {"choices", std::move(choices)}, {"usage", usage_json(answers.usage())}};
  if (task.sampling.prompt_logprobs) body["prompt_logprobs"] = prompt_logprobs_json(answers.answer(0).prompt_logprobs, *context.served.tokenizer);
  co_await exchange.respond(json_response(body));
}

// The first event is awaited before the status is sent, so that a refusal still has a status of its own.
asio::awaitable<void> send_stream(Exchange& exchange, Context& context, const ChatTask& task, Answers& answers, const std::string& model) {
  ChatStream stream(task, context.served, model, task.sampling.logprobs.has_value());
  auto news = co_await answers.next();
  bool listening = co_await exchange.start_events();
  std::string out = stream.opening(answers.size());
  std::optional<Problem> failure;
  while (!news.empty()) {
    for (const auto& item : news) stream.news(item, answers, out);
    if (listening) listening = co_await exchange.send(out);
    if (!listening) co_return;
    out.clear();
    try {
      news = co_await answers.next();
    } catch (const Problem& problem) {
      failure = problem;
      break;
    }
  }
  if (failure) out += event(problem_json(*failure));
  else if (task.include_usage) out += stream.usage(answers.usage());
  out += kDone;
  if (listening) listening = co_await exchange.send(out);
  if (listening) co_await exchange.finish_events();
}

}  // namespace

asio::awaitable<void> chat_completions(Exchange& exchange, Context& context) {
  context.check_room();
  struct Ready {
    ChatTask task;
    PreparedChat prepared;
  };
  auto ready = co_await aside(context, [&]() -> Ready {
    auto task = read_chat(parsed_body(exchange.request()), context.served);
    auto prepared = prepare_chat(task, context.served);
    return {std::move(task), std::move(prepared)};
  });
  exchange.request().body = {};
  auto target = context.target_of(ready.task.model);
  for (auto& answer : ready.prepared.answers) answer.adapter = target.adapter;
  auto choices = ready.prepared.answers.size();
  auto generation = context.admit(exchange, std::move(ready.prepared.answers));
  Answers answers(context, std::move(generation), ready.prepared.parser, choices, ready.prepared.prompt_tokens);
  if (ready.task.stream) co_await send_stream(exchange, context, ready.task, answers, target.name);
  else co_await send_whole(exchange, context, ready.task, answers, target.name);
  keep_result(context, ready.task.conversation, answers, target.name);
}

}  // namespace hone::serve
