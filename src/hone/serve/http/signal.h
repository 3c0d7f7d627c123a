// Lets one coroutine wait for others that run on the same thread.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

namespace hone::serve {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

class Signal {
 public:
  explicit Signal(const asio::any_io_executor& executor) : timer_(executor) {}

  void notify() {
    set_ = true;
    timer_.cancel();
  }

  // True if notified, also before the call; false on timeout.
  asio::awaitable<bool> wait_until(Clock::time_point deadline) {
    if (!set_) {
      boost::system::error_code ignored;
      timer_.expires_at(deadline);
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return std::exchange(set_, false);
  }

 private:
  asio::steady_timer timer_;
  bool set_ = false;
};

}  // namespace hone::serve
