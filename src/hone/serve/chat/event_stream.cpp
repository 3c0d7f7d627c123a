#include "hone/serve/chat/event_stream.h"

#include "hone/base/fault_injection.h"

namespace hone::serve {

asio::awaitable<void> send_events(Exchange& exchange, Context& context, ChoiceStream& answers, EventWriter& writer) {
  auto news = co_await answers.next();
  bool listening = co_await exchange.start_events();
  std::string out;
  writer.open(answers, out);
  std::optional<ApiError> failure;
  while (!news.empty()) {
    size_t parts = 0;
    for (const auto& item : news) parts += 1 + count_logprobs(*item.output);
    co_await run_inline_or_on_worker(context, parts, [&] {
      for (const auto& item : news) writer.on_delta(item, answers, out);
    });
    fault("serve.event");
    if (listening) listening = co_await exchange.send(out);
    if (!listening) co_return;
    out.clear();
    try {
      news = co_await answers.next();
    } catch (const ApiError& problem) {
      failure = problem;
      break;
    }
  }
  if (failure)
    writer.fail(*failure, out);
  else
    writer.close(answers, out);
  listening = co_await exchange.send(out);
  if (listening) co_await exchange.finish_events();
}

}  // namespace hone::serve
