#include "hone/serve/chat/running_chat.h"

namespace hone::serve {

asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read) {
  context.check_room();
  struct Ready {
    ChatTask task;
    PreparedChat prepared;
  };
  auto ready = co_await aside(context, [&]() -> Ready {
    auto task = read(parsed_body(exchange.request()), context.served);
    auto prepared = prepare_chat(task, context.served);
    return {std::move(task), std::move(prepared)};
  });
  exchange.request().body = {};
  auto target = context.target_of(ready.task.model);
  for (auto& request : ready.prepared.requests) request.adapter = target.adapter;
  auto generation = context.admit(exchange, std::move(ready.prepared.requests));
  auto choices = static_cast<size_t>(ready.task.n);
  Answers answers(context, std::move(generation), ready.prepared.parser, choices, ready.prepared.prompt_tokens);
  co_return std::make_unique<RunningChat>(RunningChat{std::move(ready.task), std::move(target.name), std::move(answers)});
}

}  // namespace hone::serve
