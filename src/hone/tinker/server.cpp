#include "hone/tinker/server.h"

#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>

#include "hone/base/log.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/serve/http/access.h"
#include "hone/serve/http/in_flight.h"
#include "hone/serve/http/listener.h"
#include "hone/serve/workers.h"
#include "hone/tinker/api/audit.h"
#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_fields.h"
#include "hone/train/run_lock.h"

namespace hone::tinker {
namespace {

using serve::ApiError;
using serve::Clock;
using serve::Exchange;
using serve::HttpRequest;
using serve::HttpResponse;

constexpr size_t kWorkers = 4;
constexpr std::chrono::seconds kLongPoll{30};  // the SDK gives up after 45
constexpr std::chrono::seconds kTidyEvery{20};
constexpr double kKeepResults = 3600, kKeepSamples = 900;  // seconds

HttpResponse answer_to(const ApiError& problem, const HttpRequest& request) {
  return request.path.starts_with("/v1/messages") ? serve::anthropic_problem(problem) : serve::problem_response(problem);
}

// For metrics: "" is everything that no route names.
std::string_view pattern_of(const HttpRequest& request) {
  if (auto found = find_route(request.method, request.path); found.route) return found.route->path;
  const auto* route = OpenAiApi::find_route(request.method, request.path);
  return route ? route->path : std::string_view();
}

class TinkerServer : public serve::Service {
 public:
  TinkerServer(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served, const TinkerConfig& config)
      : config_(config),
        access_("", config.http.host, config.http.allowed_origins),
        lock_(config.model.root),
        store_(config.model.root / "state.sqlite"),
        futures_(io_),
        rate_(config.keys.limits()),
        metrics_(served.name),
        audit_(config.model.root / "audit.jsonl"),
        loop_(
            model, engine, io_, store_, config.model, [this](const std::string& future) { futures_.notify(future); },
            [this](const std::string& id, Outcome outcome) { futures_.finish_sample(id, std::move(outcome)); }),
        openai_(served, services_, workers_),
        twinkle_(served, services_, workers_),
        tls_(config.http.certificate_file.empty() ? nullptr
                                                  : serve::tls_context(config.http.certificate_file, config.http.key_file)),
        listener_(io_.get_executor(), config.http.host, {config.http.port, config.http.port_fixed}, tls_, *this,
                  config.http.http),
        signals_(io_, SIGTERM, SIGINT) {
    remove_unnamed_folders(config.model.root, store_);
    loop_.start();
  }

  ~TinkerServer() override {
    loop_.stop();
    workers_.join();
  }

  int run() {
    log::info("{} is served at {} to the tinker SDK; OpenAI's API is under /v1, Anthropic's at /v1/messages",
              config_.api.base_model, listener_.address());
    asio::co_spawn(io_, listener_.accept_clients(), asio::detached);
    asio::co_spawn(io_, tidy(), asio::detached);
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
      if (!cancelled) start_draining(signal);
    });
    io_.run();
    return 0;
  }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    const auto found = find_route(head.method, head.path);
    const bool open = found.route && found.route->is_open;
    if (auto problem = access_.wrong_origin(head)) return answer_to(*problem, head);
    if (!open && !config_.keys.tenant_of(key_of(head)))
      return serve::Access::unauthorized_response(answer_to(serve::wrong_key(), head), head);
    if (!found.route && !OpenAiApi::find_route(head.method, head.path))
      return serve::problem_response(
          {404, fmt::format("{} is not supported by this server", serve::request_line(head)), "", "not_supported"});
    if (draining_) return answer_to({503, "the server is ending", "", "draining"}, head);
    return std::nullopt;
  }

  void on_rejected(const HttpRequest& head, int status) override {
    metrics_.on_rejected(pattern_of(head), status);
    if (config_.http.log_requests) log::info("{} {}", serve::request_line(head), status);
  }

  asio::awaitable<void> handle(Exchange& exchange) override {
    serve::InFlightRequests::Counted counted(under_way_);
    const auto began = Clock::now();
    auto problem = co_await serve::problem_of(answer(exchange), exchange.request());
    if (problem && !exchange.answered() && !exchange.gone()) co_await exchange.respond(answer_to(*problem, exchange.request()));
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    metrics_.answered(pattern_of(exchange.request()), exchange.status(), seconds);
    if (config_.http.log_requests)
      log::info("{} {} {:.0f} ms", serve::request_line(exchange.request()), exchange.status(), seconds * 1e3);
  }

 private:
  asio::awaitable<void> answer(Exchange& exchange) {
    auto found = find_route(exchange.request().method, exchange.request().path);
    const auto tenant = config_.keys.tenant_of(key_of(exchange.request())).value_or("");
    Call call{tenant, exchange.request(), std::move(found.parts)};
    if (!found.route) {
      co_await openai_.answer(exchange, *OpenAiApi::find_route(exchange.request().method, exchange.request().path), tenant);
    } else if (found.route->path == kHealth) {
      auto response = serve::json_response({{"status", "ok"}});
      co_await exchange.respond(std::move(response));
    } else if (found.route->path == kRetrieveFuture) {
      co_await retrieve(exchange, call);
    } else if (found.route->path == kTwinkleModel || found.route->path == kTwinkleSampler ||
               found.route->path == kTwinkleProcessor) {
      co_await answer_twinkle(exchange, *found.route, call);
    } else {
      auto response = co_await workers_.run([&] { return answered(*found.route, call); });
      co_await exchange.respond(std::move(response));
    }
  }

  asio::awaitable<void> answer_twinkle(Exchange& exchange, const Route& route, const Call& call) {
    std::optional<HttpResponse> response;
    try {
      if (route.path == kTwinkleModel)
        response = co_await twinkle_.answer_model(exchange, call);
      else if (route.path == kTwinkleProcessor)
        response = co_await twinkle_.answer_processor(call);
      else
        response = co_await twinkle_.answer_sampler(exchange, call);
    } catch (const RequestError& problem) {
      throw ApiError(400, problem.what(), "", "invalid_request");
    }
    if (call.parts.back() == "add_adapter_to_model" || call.parts.back() == "save") audit_.write(call, response->status);
    co_await exchange.respond(std::move(*response));
  }

  HttpResponse answered(const Route& route, const Call& call) {
    try {
      auto response = answer_of(route, call);
      if (route.is_audited) audit_.write(call, response.status);
      return response;
    } catch (const ApiError& problem) {
      if (route.is_audited) audit_.write(call, problem.status);
      throw;
    }
  }

  HttpResponse answer_of(const Route& route, const Call& call) try {
    return route.handler(services_, call);
  } catch (const RequestError& problem) {
    throw ApiError(400, problem.what(), "", "invalid_request");
  }

  // Waits for the result, but not so long that the client gives up: it asks again at once.
  asio::awaitable<void> retrieve(Exchange& exchange, const Call& call) {
    std::string id;
    try {
      id = required_text(body_of(call), "request_id");
    } catch (const RequestError& problem) {
      throw ApiError(400, problem.what(), "request_id", "invalid_request");
    }
    const auto deadline = Clock::now() + kLongPoll;
    while (true) {
      auto signal = futures_.watch(id);
      auto response = co_await workers_.run([&] { return result_of(services_, call, id); });
      if (response) {
        co_await exchange.respond(std::move(*response));
        co_return;
      }
      if (draining_ || exchange.gone() || Clock::now() >= deadline) break;
      co_await signal->wait_until(deadline);
    }
    auto pending = serve::json_response({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}}, 408);
    co_await exchange.respond(std::move(pending));
  }

  asio::awaitable<void> tidy() {
    while (true) {
      co_await serve::pause(kTidyEvery);
      try {
        co_await workers_.run([this] {
          remove_expired(store_);
          store_.forget_results(kKeepResults);
          futures_.forget(kKeepSamples);
          return true;
        });
      } catch (const std::exception& problem) {
        log::error("tidying up: {}", problem.what());
      }
    }
  }

  void start_draining(int signal) {
    draining_ = true;
    log::info("signal {}: no new requests; what was accepted continues at the next start", signal);
    serve::end_at_next(signals_);
    listener_.send_idle_clients_away();
    futures_.notify_all();
    asio::co_spawn(io_, drain(), asio::detached);
  }

  asio::awaitable<void> drain() {
    co_await under_way_.drain(listener_, std::chrono::seconds(2), [this] { loop_.engine().interrupt_all(); });
    if (under_way_.count() > 0) ::_exit(0);  // everything acknowledged is in the store, and these answers have no end
    io_.stop();
  }

  const TinkerConfig& config_;
  serve::Access access_;
  serve::Workers workers_{kWorkers};
  asio::io_context io_{1};
  train::RunLock lock_;  // one server a folder
  Store store_;
  Futures futures_;
  Archives archives_;
  TokenRate rate_;
  serve::Metrics metrics_;
  const AuditLog audit_;
  ModelLoop loop_;
  Services services_{config_.api, store_, loop_, futures_, archives_, config_.keys.limits(), rate_, metrics_};
  OpenAiApi openai_;
  TwinkleApi twinkle_;
  std::shared_ptr<asio::ssl::context> tls_;
  serve::Listener listener_;
  asio::signal_set signals_;
  serve::InFlightRequests under_way_;
  bool draining_ = false;
};

}  // namespace

int run_tinker_server(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served,
                      const TinkerConfig& config) {
  return TinkerServer(model, engine, served, config).run();
}

}  // namespace hone::tinker
