#include "hone/serve/generation.h"

#include "hone/serve/engine_loop.h"

namespace hone::serve {
namespace {

size_t weight(const engine::RequestOutput& output) {
  size_t bytes = 64 + output.text.size();
  for (const auto* positions : {&output.logprobs, &output.prompt_logprobs})
    for (const auto& position : *positions) bytes += 64 * (1 + position.top.size());
  return bytes;
}

}  // namespace

Generation::Generation(EngineLoop& loop, uint64_t ticket, size_t choices, const asio::any_io_executor& executor)
    : loop_(loop), ticket_(ticket), unfinished_(choices), signal_(executor) {
  loop_.sessions_.emplace(ticket_, this);
}

Generation::~Generation() {
  loop_.sessions_.erase(ticket_);
  if (unfinished_ > 0) loop_.enqueue([&loop = loop_, ticket = ticket_] { loop.cancel(ticket); });
}

asio::awaitable<std::vector<Event>> Generation::next() {
  waiting_ = true;
  while (pending_.empty() && !interrupted_) co_await signal_.wait_until(Clock::time_point::max());
  waiting_ = false;
  pending_bytes_ = 0;
  co_return std::exchange(pending_, {});
}

void Generation::interrupt() {
  interrupted_ = true;
  signal_.notify();
}

void Generation::push(Event event) {
  if (event.output.finish != engine::FinishReason::none) --unfinished_;
  pending_bytes_ += weight(event.output);
  pending_.push_back(std::move(event));
  signal_.notify();
  if (waiting_ || pending_bytes_ <= loop_.limits_.unread_bytes) return;
  interrupted_ = true;
  if (auto callback = std::exchange(on_overrun_, nullptr)) callback();
}

}  // namespace hone::serve
