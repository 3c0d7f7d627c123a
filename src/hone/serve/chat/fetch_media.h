// Downloads of what a request refers to by URL, and the threads of its media: requests of text alone do not wait for either.
#pragma once
#include "hone/serve/chat/request_media.h"
#include "hone/serve/context.h"

namespace hone::serve {

// One URL after the other, on threads for downloads. Throws ApiError: 400 naming no server, 429 if there is no room for the
// content, 499 if the client has left.
asio::awaitable<FetchedMedia> fetch_media(Exchange& exchange, Context& context, const std::vector<std::string>& urls);

// Decoding stops when the client leaves.
data::PromptDecoding prompt_decoding(const Exchange& exchange, Context& context);

// Runs `read(needs)`, whose task adds its conversations to `needs`, and `prepare(task, media)`, and returns both results: on a
// worker, but where there are media, `prepare` on a thread for decoding, after their download.
template <class Read, class Prepare>
auto read_and_prepare(Exchange& exchange, Context& context, Read read, Prepare prepare)
    -> asio::awaitable<std::pair<std::invoke_result_t<Read, MediaNeeds&>,
                                 std::invoke_result_t<Prepare, std::invoke_result_t<Read, MediaNeeds&>&, const RequestMedia&>>> {
  using Task = std::invoke_result_t<Read, MediaNeeds&>;
  using Prepared = std::invoke_result_t<Prepare, Task&, const RequestMedia&>;
  MediaNeeds needs;
  std::optional<Prepared> prepared;
  auto task = co_await run_on_worker(context, [&] {
    auto found = read(needs);
    if (!needs.any) prepared = prepare(found, RequestMedia{});
    return found;
  });
  if (!prepared) {
    RequestMedia media{.fetched = {}, .decoding = prompt_decoding(exchange, context)};
    media.fetched = co_await fetch_media(exchange, context, needs.urls);
    prepared = co_await context.media.decoders.run([&] {
      require_client(exchange);
      return prepare(task, media);
    });
  }
  co_return std::pair(std::move(task), std::move(*prepared));
}

}  // namespace hone::serve
