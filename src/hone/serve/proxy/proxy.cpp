#include "hone/serve/proxy/proxy.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "hone/base/log.h"
#include "hone/serve/http_service.h"
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

class Proxy : public HttpService {
 public:
  Proxy(const ProxyConfig& relay, const ServerConfig& config, Upstream upstream)
      : HttpService(config, config.api_key), relay_(relay), upstream_(std::move(upstream)) {}

  int run() {
    announce(fmt::format("{} at {}", first_model(), relay_.base_url), "(open it in a browser; Ctrl-C ends it)");
    access().warn_if_unauthenticated();
    return serve_until_stopped();
  }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (asks_health(head)) return std::nullopt;
    if (auto refusal = refuse_access(head)) return refusal;
    if (!is_browser_request(head) && !page_asks(head))
      return problem_response({404, "this is a chat page; the upstream server has the other endpoints", "", "not_found"});
    return std::nullopt;
  }

 private:
  asio::awaitable<void> dispatch(Exchange& exchange) override {
    if (page_asks(exchange.request())) {
      const auto& asked = exchange.request();
      auto request = request_to(asked.method, asked.path.substr(std::string_view("/v1").size()), asked.body);
      co_await upstream_.forward(exchange, std::move(request));
    } else {
      auto response = own_answer(exchange.request());
      co_await exchange.respond(std::move(response));
    }
  }

  HttpResponse error_response(const ApiError& problem, const HttpRequest&) const override { return problem_response(problem); }

  ApiError reported(ApiError problem, const HttpRequest& request) override {
    log::warning("{}: {}", request_line(request), problem.message);
    return problem;
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
    HttpResponse reply;
    std::exception_ptr failure;
    asio::co_spawn(io(), upstream_.ask(request_to("GET", "/models", {}), {}),
                   [&](std::exception_ptr thrown, HttpResponse response) {
                     failure = thrown, reply = std::move(response);
                     io().stop();  // which waits for signals too
                   });
    io().run();
    io().restart();
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const ApiError& problem) {
      throw UserError(ExitCode::usage, fmt::format("`base_url` {}: {}", relay_.base_url, problem.message),
                      "start that server first, or correct the address");
    }
    if (reply.status == 401 || reply.status == 403)
      throw UserError(ExitCode::usage, fmt::format("`base_url` {}: the server asks for a key", relay_.base_url),
                      "set OPENAI_API_KEY");
    auto list = parse_json(reply.body);
    if (reply.status != 200 || !list || !list->is_object() || !list->contains("data") || !(*list)["data"].is_array() ||
        (*list)["data"].empty())
      throw UserError(
          ExitCode::usage,
          fmt::format("`base_url` {}: the server answers {} when asked for its models", relay_.base_url, reply.status),
          "expected the address of OpenAI's interface, as in http://127.0.0.1:8000/v1");
    const auto& first = (*list)["data"].front();
    return first.is_object() && first.contains("id") && first["id"].is_string() ? first["id"].get<std::string>() : "a model";
  }

  void on_draining(int /*signal*/) override { listener().stop_accepting(); }
  void interrupt() override { listener().close_clients(); }

  const ProxyConfig& relay_;
  Upstream upstream_;
};

}  // namespace

int run_proxy(const ProxyConfig& relay, const ServerConfig& config) {
  Upstream upstream(Url::parse_openai(relay.base_url, "base_url"), relay.trusted);
  return Proxy(relay, config, std::move(upstream)).run();
}

}  // namespace hone::serve
