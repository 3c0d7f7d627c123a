#include "hone/serve/chat/running_chat.h"

namespace hone::serve {

asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read) {
  auto permit = context.enter(exchange);
  struct Ready {
    ChatTask task;
    PreparedChat prepared;
  };
  auto ready = co_await run_on_worker(context, [&]() -> Ready {
    auto task = read(parsed_body(exchange), context.served);
    auto prepared = prepare_chat(task, context.served);
    return {std::move(task), std::move(prepared)};
  });
  exchange.drop_body();
  exchange.set_user(ready.task.user);
  if (auto reduced = ready.prepared.reduced_max_tokens)
    exchange.add_header(max_tokens_header(*reduced).first, max_tokens_header(*reduced).second);
  auto target = context.target_of(ready.task.model);
  for (auto& request : ready.prepared.requests) request.adapter = target.adapter;
  auto generation = context.admit(exchange, permit, std::move(ready.prepared.requests));
  std::vector parsers(static_cast<size_t>(ready.task.n), ready.prepared.parser);
  ChoiceStream choices(context, std::move(generation), parsers, ready.prepared.prompt_tokens, !ready.task.stream.on);
  co_return std::make_unique<RunningChat>(RunningChat{std::move(ready.task), std::move(target.name), std::move(choices)});
}

}  // namespace hone::serve
