#include "hone/serve/http_service.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>

#include "hone/base/log.h"

namespace hone::serve {

HttpService::HttpService(const ServerConfig& config, const std::string& api_key)
    : config_(config),
      access_(api_key, config.host, config.allowed_origins),
      tls_(config.certificate_file.empty() ? nullptr : tls_context(config.certificate_file, config.key_file)),
      listener_(io_.get_executor(), config.host, {config.port, config.port_fixed}, tls_, *this, config.http),
      signals_(io_, SIGTERM, SIGINT) {
  signals_.async_wait([this](const error_code& cancelled, int signal) {
    if (!cancelled) on_signal(signal);
  });
}

void HttpService::announce(std::string_view what, std::string_view how) const {
  log::info("{} is served at {} {}", what, listener_.address(), how);
}

int HttpService::serve_until_stopped() {
  serving_ = true;
  asio::co_spawn(io_, listener_.accept_clients(), asio::detached);
  io_.run();
  return exit_code_;
}

std::optional<HttpResponse> HttpService::refuse_access(const HttpRequest& head) const {
  if (auto problem = access_.wrong_origin(head)) return error_response(*problem, head);
  if (!is_authorized(head)) return Access::unauthorized_response(error_response(wrong_key(), head), head);
  return std::nullopt;
}

asio::awaitable<void> HttpService::handle(Exchange& exchange) {
  InFlightRequests::Counted counted(in_flight_);
  const auto began = Clock::now();
  const auto& request = exchange.request();
  const auto problem = co_await problem_of(dispatch(exchange), request);
  exchange.on_gone({});
  if (problem) {
    const auto shown = reported(*problem, request);
    if (!exchange.has_response() && !exchange.gone()) co_await exchange.respond(error_response(shown, request));
  }
  on_response(exchange, std::chrono::duration<double>(Clock::now() - began).count());
}

void HttpService::on_signal(int signal) {
  if (!serving_) ::_exit(128 + signal);  // there are no requests yet; name resolution cannot be interrupted
  draining_ = true;
  on_draining(signal);
  signals_.async_wait([](const error_code& cancelled, int next) {
    if (!cancelled) ::_exit(128 + next);
  });
  listener_.send_idle_clients_away();
  end(drain_timeout(), 0);
}

void HttpService::end(std::chrono::milliseconds timeout, int exit_code) {
  draining_ = true;
  asio::co_spawn(io_, drain(timeout, exit_code), asio::detached);
}

asio::awaitable<void> HttpService::drain(std::chrono::milliseconds timeout, int exit_code) {
  exit_code_ = exit_code;
  co_await in_flight_.drain(listener_, timeout, [this] { interrupt(); });
  const bool finished = co_await finish();
  if (!finished) ::_exit(exit_code_);  // a thread that does not return cannot be joined
  io_.stop();
}

asio::awaitable<bool> HttpService::finish() { co_return in_flight_.count() == 0; }

}  // namespace hone::serve
