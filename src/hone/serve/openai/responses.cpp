#include "hone/serve/openai/responses.h"

#include "hone/serve/chat/running_chat.h"

namespace hone::serve {
namespace {

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.thought}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

Json output_logprobs(const Choice& choice, const text::Tokenizer& tokenizer) {
  const text::TokenBytes bytes(tokenizer);
  Json list = Json::array();
  for (const auto& position : choice.logprobs) list.push_back(chat_logprob(position, bytes));
  return list;
}

Json output_of(const Choice& choice, const text::Tokenizer& tokenizer) {
  Json output = Json::array();
  auto status = status_of(choice);
  if (!choice.thought.empty()) output.push_back(OutputItems::thought(fresh_id("rs_"), choice.thought, status));
  if (!choice.text.empty() || choice.calls.empty())
    output.push_back(OutputItems::message(fresh_id("msg_"), choice.text, output_logprobs(choice, tokenizer), status));
  for (const auto& call : choice.calls) output.push_back(OutputItems::call(fresh_id("fc_"), call, "completed"));
  return output;
}

}  // namespace

std::string_view status_of(const Choice& choice) {
  return choice.finish == engine::FinishReason::length ? "incomplete" : "completed";
}

Json OutputItems::thought(const std::string& id, const std::string& text, std::string_view status) {
  Json content = Json::array();
  if (!text.empty()) content.push_back({{"type", "reasoning_text"}, {"text", text}});
  return {{"id", id}, {"type", "reasoning"}, {"summary", Json::array()}, {"content", content}, {"status", status}};
}

Json OutputItems::message(const std::string& id, const std::string& text, const Json& logprobs, std::string_view status) {
  Json content = Json::array();
  if (status != "in_progress")
    content.push_back({{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", logprobs}});
  return {{"id", id}, {"type", "message"}, {"role", "assistant"}, {"content", content}, {"status", status}};
}

Json OutputItems::call(const std::string& id, const Choice::Call& call, std::string_view status) {
  return {{"id", id},          {"type", "function_call"},     {"call_id", call.id},
          {"name", call.name}, {"arguments", call.arguments}, {"status", status}};
}

ResponseFrame::ResponseFrame(const ChatTask& task, const std::string& model)
    : head_{{"id", fresh_id("resp_")}, {"object", "response"}, {"created_at", unix_time()}, {"model", model}} {
  for (const auto& [name, value] : task.settings.items()) head_[name] = value;
  head_["temperature"] = task.sampling.temperature;
  head_["top_p"] = task.sampling.top_p;
  head_["max_output_tokens"] = task.max_tokens ? Json(*task.max_tokens) : Json();
  head_["parallel_tool_calls"] = !task.single_tool_call;
  head_["store"] = false;
}

Json ResponseFrame::json(std::string_view status, Json output, const Usage* usage) const {
  auto body = head_;
  body["status"] = status;
  body["error"] = nullptr;
  body["incomplete_details"] = status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json();
  body["output"] = std::move(output);
  body["usage"] = usage ? response_usage(*usage) : Json();
  return body;
}

asio::awaitable<void> responses(Exchange& exchange, Context& context) {
  auto chat = co_await start_chat(exchange, context, read_response);
  auto& choices = chat->choices;
  if (chat->task.stream.on) {
    ResponseEvents events(chat->task, context.served, chat->model);
    co_await send_events(exchange, context, choices, events);
  } else {
    co_await choices.finish();
    auto response = co_await run_inline_or_on_worker(context, choices.parts(), [&] {
      const auto& choice = choices.at(0);
      ResponseFrame frame(chat->task, chat->model);
      return json_response(frame.json(status_of(choice), output_of(choice, *context.served.tokenizer), &choices.usage()));
    });
    co_await exchange.respond(std::move(response));
  }
  keep_result(context, chat->task.conversation, choices, chat->model);
}

}  // namespace hone::serve
