// Endpoints besides generation: health, metrics, tokenization, adapters, the OpenAPI document.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

asio::awaitable<void> version(Exchange& exchange, Context& context);
asio::awaitable<void> metrics_page(Exchange& exchange, Context& context);
asio::awaitable<void> tokenize(Exchange& exchange, Context& context);
asio::awaitable<void> detokenize(Exchange& exchange, Context& context);
asio::awaitable<void> load_adapter(Exchange& exchange, Context& context);
asio::awaitable<void> unload_adapter(Exchange& exchange, Context& context);
// vLLM's sleep mode: the engine frees its KV cache, and requests wait until it is woken.
asio::awaitable<void> put_to_sleep(Exchange& exchange, Context& context);
asio::awaitable<void> wake_up(Exchange& exchange, Context& context);
asio::awaitable<void> is_sleeping(Exchange& exchange, Context& context);
asio::awaitable<void> openapi(Exchange& exchange, Context& context);

}  // namespace hone::serve
