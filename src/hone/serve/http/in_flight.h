// Requests in flight: their count, how failures are reported to the client, and how shutdown waits for them.
#pragma once
#include <functional>
#include <optional>

#include "hone/serve/http/api_error.h"
#include "hone/serve/http/listener.h"

namespace hone::serve {

class InFlightRequests {
 public:
  // Counts a request out however it ends.
  class Counted {
   public:
    explicit Counted(InFlightRequests& all) : all_(all) { ++all_.count_; }
    ~Counted() { --all_.count_; }
    Counted(const Counted&) = delete;

   private:
    InFlightRequests& all_;
  };

  size_t count() const { return count_; }
  asio::awaitable<void> until_none(std::chrono::milliseconds timeout) const;
  // Waits up to `timeout` for requests to end, then calls `cancel`, which sends their clients the reason, then ends them by
  // force. Requests left after that hang.
  asio::awaitable<void> drain(Listener& listener, std::chrono::milliseconds timeout, std::function<void()> cancel) const;

 private:
  size_t count_ = 0;
};

// Awaits `handling`, and returns the error response if it failed. Exceptions other than ApiError are only logged.
asio::awaitable<std::optional<ApiError>> problem_of(asio::awaitable<void> handling, const HttpRequest& request);

// "GET /v1/models", for the log: an untrusted path is shortened to plain characters, without its query.
std::string request_line(const HttpRequest& request);

asio::awaitable<void> pause(std::chrono::milliseconds time);

}  // namespace hone::serve
