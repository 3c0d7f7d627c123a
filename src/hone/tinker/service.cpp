#include "hone/tinker/service.h"

#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <csignal>

#include "hone/base/log.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"

namespace hone::tinker {

using serve::Clock;
using serve::HttpRequest;
using serve::HttpResponse;

HttpResponse problem_answer(const serve::ApiError& problem, const HttpRequest& request) {
  return request.path.starts_with("/v1/messages") ? serve::anthropic_problem(problem) : serve::problem_response(problem);
}

TinkerService::TinkerService(const serve::ServerConfig& http, const Keys& keys, const char* name)
    : http_(http),
      keys_(keys),
      name_(name),
      access_("", http.host, http.allowed_origins),
      tls_(http.certificate_file.empty() ? nullptr : serve::tls_context(http.certificate_file, http.key_file)),
      listener_(io_.get_executor(), http.host, {http.port, http.port_fixed}, tls_, *this, http.http),
      signals_(io_, SIGTERM, SIGINT) {}

std::optional<HttpResponse> TinkerService::refuse(const HttpRequest& head) {
  const auto found = find_route(head.method, head.path);
  const bool open = found.route && found.route->is_open;
  if (auto problem = access_.wrong_origin(head)) return problem_answer(*problem, head);
  if (!open && !keys_.tenant_of(key_of(head)))
    return serve::Access::unauthorized_response(problem_answer(serve::wrong_key(), head), head);
  if (!found.route && !OpenAiApi::find_route(head.method, head.path))
    return problem_answer(
        {404, fmt::format("{} is not supported by this server", serve::request_line(head)), "", "not_supported"}, head);
  if (draining_) return problem_answer({503, fmt::format("the {} is ending", name_), "", "draining"}, head);
  return std::nullopt;
}

asio::awaitable<void> TinkerService::handle(serve::Exchange& exchange) {
  serve::InFlightRequests::Counted counted(in_flight_);
  const auto began = Clock::now();
  const auto problem = co_await serve::problem_of(answer(exchange), exchange.request());
  exchange.on_gone({});
  if (problem && !exchange.answered() && !exchange.gone()) {
    auto response = problem_answer(reported(*problem, exchange.request()), exchange.request());
    co_await exchange.respond(std::move(response));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  on_answered(exchange, seconds);
  if (http_.log_requests) log::info("{} {} {:.0f} ms", serve::request_line(exchange.request()), exchange.status(), seconds * 1e3);
}

void TinkerService::serve_until_signal() {
  asio::co_spawn(io_, listener_.accept_clients(), asio::detached);
  signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
    if (!cancelled) start_draining(signal);
  });
  io_.run();
}

void TinkerService::start_draining(int signal) {
  draining_ = true;
  serve::end_at_next(signals_);
  listener_.send_idle_clients_away();
  on_draining(signal);
  asio::co_spawn(io_, drain(), asio::detached);
}

asio::awaitable<void> TinkerService::drain() {
  co_await in_flight_.drain(listener_, std::chrono::seconds(2), [this] { interrupt(); });
  if (in_flight_.count() > 0) ::_exit(0);  // everything acknowledged is stored, and these responses do not end by themselves
  io_.stop();
}

}  // namespace hone::tinker
