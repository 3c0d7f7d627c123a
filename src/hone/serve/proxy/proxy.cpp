#include "hone/serve/proxy/proxy.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>

#include "hone/base/log.h"
#include "hone/serve/http/access.h"
#include "hone/serve/http/in_flight.h"
#include "hone/serve/http/listener.h"
#include "hone/serve/page/page.h"
#include "hone/serve/proxy/upstream.h"

namespace hone::serve {
namespace {

// The upstream endpoints that the page uses. Nothing else is forwarded: the key belongs to the operator, not the visitor.
bool page_asks(const HttpRequest& head) {
  return (head.method == "GET" && head.path == "/v1/models") || (head.method == "POST" && head.path == "/v1/chat/completions");
}
bool asks_health(const HttpRequest& head) {
  return head.method == "GET" && (head.path == "/health" || head.path == "/ping" || head.path == "/live");
}

class Proxy : public Service {
 public:
  Proxy(const ProxyConfig& relay, const ServerConfig& config)
      : relay_(relay),
        config_(config),
        access_(config.api_key, config.host, config.allowed_origins),
        upstream_(Url::parse_openai(relay.base_url, "base_url"), relay.trusted),
        tls_(config.certificate_file.empty() ? nullptr : tls_context(config.certificate_file, config.key_file)),
        listener_(io_.get_executor(), config.host, {config.port, config.port_fixed}, tls_, *this, config.http),
        signals_(io_, SIGTERM, SIGINT) {}

  int run() {
    signals_.async_wait([this](const error_code& cancelled, int signal) {
      if (!cancelled) end(signal);
    });
    auto name = first_model();
    serving_ = true;
    log::info("{} at {} is served at {} (open it in a browser; Ctrl-C ends it)", name, relay_.base_url, listener_.address());
    access_.warn_if_unauthenticated();
    asio::co_spawn(io_, listener_.accept_clients(), asio::detached);
    io_.run();
    return 0;
  }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (asks_health(head)) return std::nullopt;
    if (auto problem = access_.wrong_origin(head)) return problem_response(*problem);
    if (access_.has_key() && !access_.has_valid_key(head))
      return Access::unauthorized_response(problem_response(wrong_key()), head);
    if (!is_browser_request(head) && !page_asks(head))
      return problem_response({404, "this is a chat page; the upstream server has the other endpoints", "", "not_found"});
    return std::nullopt;
  }

  asio::awaitable<void> handle(Exchange& exchange) override {
    InFlightRequests::Counted counted(under_way_);
    auto problem = co_await problem_of(answer(exchange), exchange.request());
    exchange.on_gone({});
    if (!problem) co_return;
    log::warning("{}: {}", request_line(exchange.request()), problem->message);
    if (!exchange.answered() && !exchange.gone()) co_await exchange.respond(problem_response(*problem));
  }

 private:
  asio::awaitable<void> answer(Exchange& exchange) {
    if (page_asks(exchange.request())) {
      const auto& asked = exchange.request();
      auto request = request_to(asked.method, asked.path.substr(std::string_view("/v1").size()), asked.body);
      co_await upstream_.forward(exchange, std::move(request));
    } else {
      auto response = own_answer(exchange.request());
      co_await exchange.respond(std::move(response));
    }
  }

  UpstreamRequest request_to(std::string method, std::string path, std::string_view body) const {
    UpstreamRequest request{std::move(method), std::move(path), {}, body};
    request.headers.emplace_back("Content-Type", "application/json");
    request.headers.emplace_back("Accept", "application/json, text/event-stream");
    if (!relay_.key.empty()) request.headers.emplace_back("Authorization", "Bearer " + relay_.key);
    return request;
  }

  HttpResponse own_answer(const HttpRequest& request) const {
    return asks_health(request) ? json_response({{"status", "ok"}}) : page_file(request.path, relay_.look);
  }

  // Its model name, which also verifies the address.
  std::string first_model() {
    HttpResponse answer;
    std::exception_ptr failure;
    asio::co_spawn(io_, upstream_.ask(request_to("GET", "/models", {}), {}),
                   [&](std::exception_ptr thrown, HttpResponse response) {
                     failure = thrown, answer = std::move(response);
                     io_.stop();  // which waits for signals too
                   });
    io_.run();
    io_.restart();
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const ApiError& problem) {
      throw UserError(ExitCode::usage, fmt::format("`base_url` {}: {}", relay_.base_url, problem.message),
                      "start that server first, or correct the address");
    }
    if (answer.status == 401 || answer.status == 403)
      throw UserError(ExitCode::usage, fmt::format("`base_url` {}: the server asks for a key", relay_.base_url),
                      "set OPENAI_API_KEY");
    auto list = parse_json(answer.body);
    if (answer.status != 200 || !list || !list->is_object() || !list->contains("data") || !(*list)["data"].is_array() ||
        (*list)["data"].empty())
      throw UserError(
          ExitCode::usage,
          fmt::format("`base_url` {}: the server answers {} when asked for its models", relay_.base_url, answer.status),
          "expected the address of OpenAI's interface, as in http://127.0.0.1:8000/v1");
    const auto& first = (*list)["data"].front();
    return first.is_object() && first.contains("id") && first["id"].is_string() ? first["id"].get<std::string>() : "a model";
  }

  void end(int signal) {
    if (!serving_) ::_exit(128 + signal);  // no request is served yet; name resolution cannot be interrupted
    end_at_next(signals_);
    listener_.stop_accepting();
    listener_.send_idle_clients_away();
    asio::co_spawn(io_, drain(), asio::detached);
  }

  asio::awaitable<void> drain() {
    co_await under_way_.drain(listener_, config_.drain, [this] { listener_.close_clients(); });
    if (under_way_.count() > 0) ::_exit(0);
    io_.stop();
  }

  const ProxyConfig& relay_;
  const ServerConfig& config_;
  Access access_;
  asio::io_context io_{1};
  Upstream upstream_;
  std::shared_ptr<asio::ssl::context> tls_;
  Listener listener_;
  asio::signal_set signals_;
  InFlightRequests under_way_;
  bool serving_ = false;
};

}  // namespace

int run_proxy(const ProxyConfig& relay, const ServerConfig& config) { return Proxy(relay, config).run(); }

}  // namespace hone::serve
