#include "hone/serve/http/in_flight.h"

#include "hone/base/log.h"
#include "hone/base/out_of_space.h"
#include "hone/base/strings/counted.h"

namespace hone::serve {

using std::chrono::milliseconds;

namespace {
constexpr milliseconds kLook{10};             // polling interval
constexpr milliseconds kTimeToSayWhy{1'000};  // for requests that are ended early
constexpr milliseconds kTimeToUnwind{5'000};  // for requests whose client is gone
constexpr int kFullDiskSeconds = 5;           // until a client tries again
}  // namespace

asio::awaitable<void> pause(milliseconds time) {
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> InFlightRequests::until_none(milliseconds timeout) const {
  for (auto deadline = Clock::now() + timeout; count_ > 0 && Clock::now() < deadline;) co_await pause(kLook);
}

asio::awaitable<void> InFlightRequests::drain(Listener& listener, milliseconds timeout, std::function<void()> cancel) const {
  co_await until_none(timeout);
  if (count_ > 0) {
    log::warning("aborted after the drain timeout: {}", counted(count_, "request"));
    cancel();
    co_await until_none(kTimeToSayWhy);
  }
  listener.stop_accepting();
  listener.close_clients();
  co_await until_none(kTimeToUnwind);
}

asio::awaitable<std::optional<ApiError>> problem_of(asio::awaitable<void> handling, const HttpRequest& request) {
  std::optional<ApiError> problem;
  try {
    co_await std::move(handling);
  } catch (const ApiError& caught) {
    problem = caught;
  } catch (const std::exception& error) {
    log::error("{}: {}", request_line(request), error.what());
    problem = ApiError(500, "internal error; see the server's log", "", "internal_error");
    if (is_out_of_space(error)) {
      problem = ApiError(503, "the server's disk is full; send the request again when there is room", "", "out_of_space");
      problem->retry_after = kFullDiskSeconds;
    }
  }
  co_return problem;
}

std::string request_line(const HttpRequest& request) {
  constexpr size_t kShown = 200;
  auto path = request.path.substr(0, kShown);
  for (char& c : path)
    if (c <= ' ' || c > '~') c = '?';
  return fmt::format("{} {}", request.head_only ? "HEAD" : request.method.substr(0, 16), path);
}

}  // namespace hone::serve
