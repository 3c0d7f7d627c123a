#include "hone/serve/chat/fetch_media.h"

#include "hone/base/log.h"
#include "hone/media/medium.h"

namespace hone::serve {
namespace {

constexpr size_t kMostFetchedBytes = 256u << 20;  // of one request, before its last download

// The reason of a failed fetch goes to the server's log only: a client must not learn about the server's network.
std::string fetch_one(const std::string& url, const Exchange& exchange, const ServedModel& served) {
  require_client(exchange);
  const auto content = served.fetch_media(url, [&] { return exchange.gone(); });
  require_client(exchange);
  if (content) return media::data_uri(*content);
  log::info("a request named {}: {}", url.substr(0, 200), content.error());
  throw ApiError(400, "an address was not fetched: its host is not one that this server contacts, or did not respond in time",
                 "messages", "invalid_value");
}

}  // namespace

asio::awaitable<FetchedMedia> fetch_media(Exchange& exchange, Context& context, const std::vector<std::string>& urls) {
  FetchedMedia fetched;
  size_t bytes = 0;
  for (const auto& url : urls) {
    if (bytes > kMostFetchedBytes)
      throw ApiError(400, fmt::format("its addresses have more than {} bytes together", kMostFetchedBytes), "messages",
                     "too_long");
    auto content = co_await context.media.downloads.run([&] { return fetch_one(url, exchange, context.served); });
    bytes += content.size();
    if (!exchange.grow_body(content.size())) context.admission.refuse();
    fetched.emplace(url, std::move(content));
  }
  co_return fetched;
}

data::PromptDecoding prompt_decoding(const Exchange& exchange, Context& context) {
  return {.fill = [&cache = context.media.patch_rows](auto pictures, auto rows) { return cache.fill(pictures, rows); },
          .is_cancelled = [&exchange] { return exchange.gone(); }};
}

}  // namespace hone::serve
