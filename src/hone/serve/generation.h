// The outputs of one request on their way from the engine's thread to its session.
#pragma once
#include <functional>
#include <vector>

#include "hone/engine/request.h"
#include "hone/serve/http/signal.h"

namespace hone::serve {

class EngineLoop;

// One step's addition to one choice of a request.
struct Event {
  size_t choice = 0;
  engine::RequestOutput output;
  bool refused = false;  // the engine rejected the request as invalid
};

// The outputs of one request (n choices) for its session. Destroying it cancels what still runs. I/O thread only.
class Generation {
 public:
  Generation(EngineLoop& loop, uint64_t ticket, size_t choices, const asio::any_io_executor& executor);
  ~Generation();
  Generation(const Generation&) = delete;

  // Outputs since the last call, waiting for at least one; empty after interrupt().
  asio::awaitable<std::vector<Event>> next();
  void interrupt();
  bool interrupted() const { return interrupted_; }
  // Called once if the session reads its outputs too slowly.
  void on_overrun(std::function<void()> callback) { on_overrun_ = std::move(callback); }
  bool finished() const { return unfinished_ == 0; }
  bool has_pending_events() const { return !pending_.empty(); }

 private:
  friend class EngineLoop;
  void push(Event event);

  EngineLoop& loop_;
  uint64_t ticket_;
  size_t unfinished_;
  size_t pending_bytes_ = 0;
  std::vector<Event> pending_;
  Signal signal_;
  std::function<void()> on_overrun_;
  bool interrupted_ = false, waiting_ = false;  // waiting: the session awaits an event
};

}  // namespace hone::serve
