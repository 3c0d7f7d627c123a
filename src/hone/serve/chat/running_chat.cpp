#include "hone/serve/chat/running_chat.h"

#include "hone/serve/chat/fetch_media.h"

namespace hone::serve {

asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read) {
  auto permit = context.enter(exchange);
  auto [task, prepared] = co_await read_and_prepare(
      exchange, context,
      [&](MediaNeeds& needs) {
        auto found = read(parsed_body(exchange), context.served);
        check_lengths(found, context.served);
        needs.add(found.conversation, context.served);
        return found;
      },
      [&](const ChatTask& found, const RequestMedia& media) { return prepare_chat(found, context.served, media); });
  exchange.drop_body();
  exchange.set_user(task.user);
  if (auto reduced = prepared.reduced_max_tokens)
    exchange.add_header(max_tokens_header(*reduced).first, max_tokens_header(*reduced).second);
  auto target = context.target_of(task.model);
  for (auto& request : prepared.requests) request.adapter = target.adapter;
  auto generation = context.admit(exchange, permit, std::move(prepared.requests));
  std::vector parsers(static_cast<size_t>(task.n), prepared.parser);
  ChoiceStream choices(context, std::move(generation), parsers, prepared.prompt_tokens, !task.stream.on);
  co_return std::make_unique<RunningChat>(RunningChat{std::move(task), std::move(target.name), std::move(choices)});
}

}  // namespace hone::serve
