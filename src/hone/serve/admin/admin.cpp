#include "hone/serve/admin/admin.h"

#include "hone/base/log.h"
#include "hone/base/version.h"
#include "hone/serve/chat/conversation.h"
#include "hone/serve/chat/fetch_media.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

struct TokenizeTask {
  std::string prompt;
  bool add_special_tokens = true;
  std::optional<ChatTask> chat;  // in place of the prompt
  bool return_token_strs = false;
};

ChatTask read_tokenized_chat(const Fields& fields) {
  ChatTask task;
  task.conversation = read_messages(fields.json("messages"));
  if (fields.has("tools")) task.tools = read_tools(fields.json("tools"), "tools", false);
  task.tool_choice = read_tool_choice({}, task.tools);
  if (fields.has("chat_template_kwargs"))
    task.conversation.extra["chat_template_kwargs"] = read_template_values(fields.json("chat_template_kwargs"));
  reject_long_text(task.conversation);
  return task;
}

TokenizeTask read_tokenize(const Json& body) {
  Fields fields(kTokenize, body);
  if (fields.has("prompt") == fields.has("messages"))
    throw ApiError(400, "expected either prompt or messages", "prompt", "invalid_value");
  TokenizeTask task{.prompt = fields.text("prompt"),
                    .add_special_tokens = fields.flag("add_special_tokens", true),
                    .return_token_strs = body.value("return_token_strs", Json(false)) == true};
  if (fields.has("messages")) task.chat = read_tokenized_chat(fields);
  return task;
}

HttpResponse tokens_response(const TokenizeTask& task, const ServedModel& served, const RequestMedia& media) {
  const auto ids = task.chat ? prompt_tokens(*task.chat, served, media)
                             : served.tokenizer->encode(task.prompt, {.add_special_tokens = task.add_special_tokens});
  Json out{{"count", ids.size()}, {"max_model_len", served.max_model_len}, {"tokens", ids}, {"token_strs", nullptr}};
  if (task.return_token_strs) {
    out["token_strs"] = Json::array();
    for (auto id : ids) out["token_strs"].push_back(served.tokenizer->token_of(id));
  }
  return json_response(out);
}

ApiError in_use() { return {409, "the adapter is in use; try again when its requests are done", "lora_name", "adapter_in_use"}; }

}  // namespace

asio::awaitable<void> version(Exchange& exchange, Context&) {
  Json reply{{"version", hone::version()}};
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> metrics_page(Exchange& exchange, Context& context) {
  HttpResponse response{
      .body = context.metrics.text(context.loop.stats(), context.loop.live_sequences(), context.admission.permits()),
      .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> tokenize(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto [task, response] = co_await read_and_prepare(
      exchange, context,
      [&](MediaNeeds& needs) {
        auto found = read_tokenize(parsed_body(exchange));
        if (found.chat) needs.add(found.chat->conversation, context.served);
        return found;
      },
      [&](const TokenizeTask& found, const RequestMedia& media) { return tokens_response(found, context.served, media); });
  permit.leave();
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> detokenize(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto text = co_await run_on_worker(context, [&] {
    auto body = parsed_body(exchange);
    Fields fields(kDetokenize, body);
    auto ids = read_token_ids(fields.json("tokens"), "tokens", *context.served.tokenizer);
    return context.served.tokenizer->decode(ids);
  });
  permit.leave();
  Json reply{{"prompt", text}};
  co_await exchange.respond(json_response(reply));
}

asio::awaitable<void> load_adapter(Exchange& exchange, Context& context) {
  context.adapters.check_enabled();
  auto permit = context.enter(exchange);
  auto body = parsed_body(exchange);
  Fields fields(kLoadAdapter, body);
  auto name = fields.text("lora_name");
  Adapters::check_name(name);
  auto folder = context.adapters.resolve(fields.text("lora_path"));
  bool known = context.adapters.knows(name);
  if (name == context.served.name || (known && !fields.flag("load_inplace", false)))
    throw ApiError(400, fmt::format("the name \"{}\" is taken", name), "lora_name", "invalid_value");
  if (known && context.adapters.entries().at(name).fixed)
    throw ApiError(403, "this adapter was named on the command line and stays", "lora_name", "fixed_adapter");
  std::optional<Adapters::LoadingSlot> room;
  if (!known) room.emplace(context.adapters);
  std::string trouble;
  bool unloaded = false;
  co_await context.loop.call([&](engine::Engine& engine) {
    try {
      if (known) engine.unload_adapter(name);
      unloaded = known;
      engine.load_adapter(name, folder);
    } catch (const std::exception& error) {  // of memory that is used up, for example: the name must not stay taken
      trouble = error.what();
    }
  });
  if (!trouble.empty()) {
    if (known && !unloaded) throw in_use();
    if (unloaded) context.adapters.remove(name);  // the old adapter is gone, the new one failed to load
    log::warning("an adapter could not be loaded: {}", trouble);
    throw ApiError(400, "the adapter cannot be loaded; the server's log says why", "lora_path", "invalid_adapter");
  }
  context.adapters.add(name, {folder, unix_time(), false});
  HttpResponse done{.body = fmt::format("Success: LoRA adapter '{}' added successfully.", name),
                    .content_type = "text/plain; charset=utf-8"};
  co_await exchange.respond(std::move(done));
}

asio::awaitable<void> unload_adapter(Exchange& exchange, Context& context) {
  context.adapters.check_enabled();
  auto permit = context.enter(exchange);
  auto body = parsed_body(exchange);
  Fields fields(kUnloadAdapter, body);
  auto name = fields.text("lora_name");
  if (!context.adapters.knows(name)) throw ApiError(404, "no adapter of that name is loaded", "lora_name", "adapter_not_found");
  if (context.adapters.entries().at(name).fixed)
    throw ApiError(403, "this adapter was named on the command line and stays", "lora_name", "fixed_adapter");
  std::string trouble;
  co_await context.loop.call([&](engine::Engine& engine) {
    try {
      engine.unload_adapter(name);
    } catch (const UserError& error) {
      trouble = error.what();
    }
  });
  if (!trouble.empty()) throw in_use();
  context.adapters.remove(name);
  HttpResponse done{.body = fmt::format("Success: LoRA adapter '{}' removed successfully.", name),
                    .content_type = "text/plain; charset=utf-8"};
  co_await exchange.respond(std::move(done));
}

asio::awaitable<void> openapi(Exchange& exchange, Context&) {
  co_await exchange.respond(json_response(openapi_document("hone", hone::version())));
}

}  // namespace hone::serve
