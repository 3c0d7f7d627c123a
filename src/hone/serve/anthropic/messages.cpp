#include "hone/serve/anthropic/messages.h"

#include <ctime>

#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/fetch_media.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/chat/running_chat.h"

namespace hone::serve {
namespace {

Json stop_reason(const Choice& choice) {
  if (choice.finish == engine::FinishReason::none) return nullptr;
  if (choice.finish == engine::FinishReason::length) return "max_tokens";
  if (choice.parser.calls() > 0) return "tool_use";
  return choice.stop_string.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const Choice& choice) { return choice.stop_string.empty() ? Json() : Json(choice.stop_string); }

Json usage_of(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"output_tokens", usage.completion},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached}};
}

Json parsed_arguments(const std::string& text) {
  auto parsed = parse_json(text, {.depth = 64});
  return parsed && parsed->is_object() ? std::move(*parsed) : Json::object();
}

Json blocks_of(const Choice& choice) {
  Json blocks = Json::array();
  if (!choice.thought.empty()) blocks.push_back({{"type", "thinking"}, {"thinking", choice.thought}, {"signature", ""}});
  if (!choice.text.empty() || choice.calls.empty()) blocks.push_back({{"type", "text"}, {"text", choice.text}});
  for (const auto& call : choice.calls)
    blocks.push_back({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", parsed_arguments(call.arguments)}});
  return blocks;
}

Json message_head(const std::string& model, const Usage& usage) {
  return {{"id", fresh_id("msg_")},   {"type", "message"},      {"role", "assistant"},      {"model", model},
          {"content", Json::array()}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}, {"usage", usage_of(usage)}};
}

Json error_json(const ApiError& problem) {
  std::string_view type = problem.status == 401   ? "authentication_error"
                          : problem.status == 403 ? "permission_error"
                          : problem.status == 404 ? "not_found_error"
                          : problem.status == 413 ? "request_too_large"
                          : problem.status == 429 ? "rate_limit_error"
                          : problem.status == 503 ? "overloaded_error"
                          : problem.status >= 500 ? "api_error"
                                                  : "invalid_request_error";
  return {{"type", "error"}, {"error", {{"type", type}, {"message", problem.message}}}};
}

// Anthropic's stream: each block is started, filled and stopped before the next.
class MessageEvents : public EventWriter {
 public:
  explicit MessageEvents(const std::string& model) : model_(model) {}

  void open(const ChoiceStream& choices, std::string& out) override {
    out += event("message_start", {{"type", "message_start"}, {"message", message_head(model_, choices.usage())}});
  }

  void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) override {
    for (const auto& delta : news.deltas) add(delta, choices.at(0), out);
  }

  void close(const ChoiceStream& choices, std::string& out) override {
    end_block(out);
    if (next_ == 0) {
      begin_block({{"type", "text"}, {"text", ""}}, out);
      end_block(out);
    }
    const auto& choice = choices.at(0);
    Json change{{"stop_reason", stop_reason(choice)}, {"stop_sequence", stop_sequence(choice)}};
    out += event("message_delta", {{"type", "message_delta"}, {"delta", change}, {"usage", usage_of(choices.usage())}});
    out += event("message_stop", {{"type", "message_stop"}});
  }

  void fail(const ApiError& problem, std::string& out) override { out += event("error", error_json(problem)); }

 private:
  void add(const Delta& delta, const Choice& choice, std::string& out) {
    if (delta.kind == Delta::Kind::call) {
      end_block(out);
      begin_block({{"type", "tool_use"}, {"id", choice.calls[delta.call].id}, {"name", delta.text}, {"input", Json::object()}},
                  out);
      kind_ = Delta::Kind::arguments;
      return;
    }
    if (!opened_ || kind_ != delta.kind) {
      end_block(out);
      bool thought = delta.kind == Delta::Kind::reasoning;
      begin_block(
          thought ? Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}} : Json{{"type", "text"}, {"text", ""}}, out);
      kind_ = delta.kind;
    }
    Json change = delta.kind == Delta::Kind::text        ? Json{{"type", "text_delta"}, {"text", delta.text}}
                  : delta.kind == Delta::Kind::reasoning ? Json{{"type", "thinking_delta"}, {"thinking", delta.text}}
                                                         : Json{{"type", "input_json_delta"}, {"partial_json", delta.text}};
    out += event("content_block_delta", {{"type", "content_block_delta"}, {"index", next_ - 1}, {"delta", change}});
  }

  void begin_block(const Json& block, std::string& out) {
    opened_ = true;
    out += event("content_block_start", {{"type", "content_block_start"}, {"index", next_++}, {"content_block", block}});
  }

  void end_block(std::string& out) {
    if (std::exchange(opened_, false)) out += event("content_block_stop", {{"type", "content_block_stop"}, {"index", next_ - 1}});
  }

  const std::string& model_;
  int64_t next_ = 0;
  bool opened_ = false;
  Delta::Kind kind_ = Delta::Kind::text;
};

std::string rfc3339(int64_t unix_seconds) {
  auto moment = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&moment, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace

HttpResponse anthropic_problem(const ApiError& problem) {
  auto response = json_response(error_json(problem), problem.status);
  if (problem.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(problem.retry_after));
  return response;
}

asio::awaitable<void> anthropic_messages(Exchange& exchange, Context& context) {
  auto chat = co_await start_chat(exchange, context, read_anthropic);
  auto& choices = chat->choices;
  if (chat->task.stream.on) {
    MessageEvents events(chat->model);
    co_await send_events(exchange, context, choices, events);
    co_return;
  }
  co_await choices.finish();
  Json body = message_head(chat->model, choices.usage());
  body["content"] = blocks_of(choices.at(0));
  body["stop_reason"] = stop_reason(choices.at(0));
  body["stop_sequence"] = stop_sequence(choices.at(0));
  co_await exchange.respond(json_response(body));
}

asio::awaitable<void> anthropic_count_tokens(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto [task, count] = co_await read_and_prepare(
      exchange, context,
      [&](MediaNeeds& needs) {
        auto body = parsed_body(exchange);
        body["max_tokens"] = 1;  // required by the other endpoint, absent here
        auto found = read_anthropic(body, context.served);
        reject_long_text(found.conversation);
        needs.add(found.conversation, context.served);
        return found;
      },
      [&](const ChatTask& found, const RequestMedia& media) { return prompt_tokens(found, context.served, media).size(); });
  Json reply{{"input_tokens", count}};
  co_await exchange.respond(json_response(reply));
}

bool asks_as_anthropic(const HttpRequest& request) { return !request.header("anthropic-version").empty(); }

Json anthropic_model(const Json& model) {
  return {{"type", "model"},
          {"id", model["id"]},
          {"display_name", model["id"]},
          {"created_at", rfc3339(model["created"].get<int64_t>())},
          {"lifecycle", "active"},
          {"max_input_tokens", model["max_model_len"]},
          {"max_tokens", model["max_model_len"]}};
}

Json anthropic_models(const Json& list) {
  Json models = Json::array();
  for (const auto& model : list) models.push_back(anthropic_model(model));
  return {{"data", models}, {"has_more", false}, {"first_id", list.front()["id"]}, {"last_id", list.back()["id"]}};
}

}  // namespace hone::serve
