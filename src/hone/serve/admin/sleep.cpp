#include "hone/serve/admin/admin.h"

namespace hone::serve {
namespace {

void check_sleep_enabled(const Context& context) {
  if (!context.sleep_allowed)
    throw ApiError(403, "requests may not put this server to sleep; it was started without `enable_sleep_mode` true", "",
                   "not_enabled");
}

// vLLM's levels: 1 keeps the weights, 2 discards them too.
void check_level(std::string_view query) {
  if (query.empty() || query == "level=1") return;
  throw ApiError(400, "expected level=1: the cache's memory is given back, the weights stay", "level", "invalid_value");
}

}  // namespace

asio::awaitable<void> put_to_sleep(Exchange& exchange, Context& context) {
  check_sleep_enabled(context);
  check_level(exchange.request().query);
  co_await context.loop.call([](engine::Engine& engine) { engine.sleep(); });
  HttpResponse done;
  co_await exchange.respond(std::move(done));
}

asio::awaitable<void> wake_up(Exchange& exchange, Context& context) {
  check_sleep_enabled(context);
  co_await context.loop.call([](engine::Engine& engine) { engine.wake(); });
  HttpResponse done;
  co_await exchange.respond(std::move(done));
}

asio::awaitable<void> is_sleeping(Exchange& exchange, Context& context) {
  bool asleep = false;
  co_await context.loop.call([&](engine::Engine& engine) { asleep = engine.stats().asleep; });
  Json reply{{"is_sleeping", asleep}};
  co_await exchange.respond(json_response(reply));
}

}  // namespace hone::serve
