#include "hone/tinker/gateway/worker.h"

#include "hone/base/log.h"
#include "hone/serve/http/in_flight.h"
#include "hone/tinker/api/routes.h"

namespace hone::tinker {
namespace {

constexpr std::chrono::milliseconds kAskHealthEvery{1000};
constexpr serve::UpstreamLimits kHealthLimits{.time = std::chrono::seconds(15), .body_bytes = 1u << 20};

}  // namespace

Worker::Worker(size_t number, const std::string& url, const serve::TrustedCertificates& trusted)
    : number_(number), url_(url), upstream_(serve::Url::parse(url, "worker_urls"), trusted) {}

bool Worker::has_model(std::string_view name) const {
  if (!models_.is_array()) return false;
  for (const auto& model : models_)
    if (model.value("model_name", "") == name) return true;
  return false;
}

void Worker::set_alive(bool alive, const std::string& why) {
  if (!alive && (alive_ || !was_seen_)) log::warning("worker {} at {}: {}", number_, url_, why);
  if (alive && !alive_) {
    log::info("worker {} at {} answers", number_, url_);
    models_ = nullptr;  // it may have been restarted with another model
  }
  was_seen_ = true;
  alive_ = alive;
  if (!alive) return;
  for (const auto& signal : std::exchange(waiting_, {})) signal->notify();
}

void Worker::remove() {
  removed_ = true;
  for (const auto& signal : std::exchange(waiting_, {})) signal->notify();
}

asio::awaitable<void> Worker::watch(std::shared_ptr<Worker> worker) {
  while (!worker->removed_) {
    bool healthy = false;
    std::string why = "it does not respond";
    try {
      serve::UpstreamRequest request{"GET", std::string(kHealth), {}, {}};
      const auto reply = co_await worker->upstream_.ask(std::move(request), kHealthLimits);
      healthy = reply.status == 200;
      why = fmt::format("it answers {} when asked for its health", reply.status);
    } catch (const serve::ApiError& problem) {
      why = problem.message;
    }
    if (healthy != worker->alive_ || !worker->was_seen_) worker->set_alive(healthy, why);
    co_await serve::pause(kAskHealthEvery);
  }
}

asio::awaitable<bool> Worker::until_alive(serve::Clock::time_point deadline) {
  while (!alive_ && !removed_ && serve::Clock::now() < deadline) {
    auto executor = co_await asio::this_coro::executor;
    auto signal = std::make_shared<serve::Signal>(executor);
    waiting_.push_back(signal);
    co_await signal->wait_until(deadline);
    std::erase(waiting_, signal);
  }
  co_return alive_ && !removed_;
}

// A broken response may be the request's own fault; whether the worker is alive is checked every second.
void Worker::note_failure(const serve::ApiError& problem) {
  ++failures_;
  if (problem.code == serve::kNoConnection) set_alive(false, problem.message);
}

asio::awaitable<serve::HttpResponse> Worker::ask(serve::UpstreamRequest request, serve::UpstreamLimits limits,
                                                 serve::Exchange* asker) {
  ++requests_;
  try {
    auto response = co_await upstream_.ask(std::move(request), limits, asker);
    co_return response;
  } catch (const serve::ApiError& problem) {
    note_failure(problem);
    throw;
  }
}

asio::awaitable<void> Worker::forward(serve::Exchange& exchange, serve::UpstreamRequest request) {
  ++requests_;
  try {
    co_await upstream_.forward(exchange, std::move(request));
  } catch (const serve::ApiError& problem) {
    note_failure(problem);
    throw;
  }
}

}  // namespace hone::tinker
