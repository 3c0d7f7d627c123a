#include "hone/serve/server.h"

#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <csignal>

#include "hone/base/counted.h"
#include "hone/base/log.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/serve/http/access.h"
#include "hone/serve/http/in_flight.h"
#include "hone/serve/http/listener.h"
#include "hone/serve/routes.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;

constexpr size_t kWorkers = 2;
constexpr milliseconds kLastWait{5'000};     // for the engine's current step, which is no longer awaited
constexpr milliseconds kTimeToTell{10'000};  // health reports "stuck" for a while before the process exits

bool speaks_anthropic(const HttpRequest& request) {
  return request.path.starts_with("/v1/messages") || asks_as_anthropic(request);
}

HttpResponse response_to(const ApiError& problem, const HttpRequest& request) {
  return speaks_anthropic(request) ? anthropic_problem(problem) : problem_response(problem);
}

class Server : public Service {
 public:
  Server(engine::Engine& engine, const ServedModel& served, const ServerConfig& config,
         const std::map<std::string, std::filesystem::path>& adapters)
      : config_(config),
        served_(served),
        access_(config.api_key, config.host, config.allowed_origins),
        loop_(engine, io_, config.engine),
        metrics_(served.name),
        adapters_(config.adapter_root, config.max_adapters),
        tls_(config.certificate_file.empty() ? nullptr : tls_context(config.certificate_file, config.key_file)),
        listener_(io_.get_executor(), config.host, {config.port, config.port_fixed}, tls_, *this, config.http),
        signals_(io_, SIGTERM, SIGINT) {
    for (const auto& [name, folder] : adapters) adapters_.add(name, {folder, served.created, true});
  }

  ~Server() {
    loop_.stop();
    workers_.join();
    media_.join();
  }

  int run() {
    announce();
    asio::co_spawn(io_, listener_.accept_clients(), asio::detached);
    asio::co_spawn(io_, watch(), asio::detached);
    signals_.async_wait([this](const error_code& cancelled, int signal) {
      if (!cancelled) start_draining(signal);
    });
    io_.run();
    return exit_code_;
  }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    const Route* route = find_route(head.method, head.path);
    auto methods = methods_of(head.path);
    if (head.method == "OPTIONS" && !methods.empty() && access_.allows_origin(head.header("origin"))) return preflight(head);
    bool open = route && route->audience == Audience::everyone;
    if (auto problem = access_.wrong_origin(head); problem && !open) return response_to(*problem, head);
    if (!open && access_.has_key() && !access_.has_valid_key(head))
      return Access::unauthorized_response(response_to(wrong_key(), head), head);
    if (!route && methods.empty())
      return response_to({404, "unknown path; /openapi.json lists all paths", "", "not_found"}, head);
    if (!route) return wrong_method(head, methods);
    if (draining_ && route->handler) return response_to(interruption(), head);
    return std::nullopt;
  }

  void on_rejected(const HttpRequest& head, int status) override {
    const Route* route = find_route(head.method, head.path);
    metrics_.on_rejected(route ? route->path : std::string_view(), status);
    if (status == 429) metrics_.refused();
    if (config_.log_requests) log::info("{} {}", request_line(head), status);
  }

  asio::awaitable<void> handle(Exchange& exchange) override {
    auto began = Clock::now();
    InFlightRequests::Counted counted(under_way_);
    auto origin = exchange.request().header("origin");
    if (!origin.empty() && access_.allows_origin(origin)) exchange.add_header("Access-Control-Allow-Origin", std::string(origin));
    const Route* route = find_route(exchange.request().method, exchange.request().path);
    auto problem = co_await problem_of(answer(exchange, *route), exchange.request());
    exchange.on_gone({});
    if (problem && !exchange.answered() && !exchange.gone()) co_await exchange.respond(response_to(*problem, exchange.request()));
    record(exchange, *route, std::chrono::duration<double>(Clock::now() - began).count());
  }

 private:
  asio::awaitable<void> answer(Exchange& exchange, const Route& route) {
    if (route.handler)
      co_await route.handler(exchange, context_);
    else
      co_await exchange.respond(health(exchange.request()));
  }

  void announce() const {
    log::info("{} is served at {} ({})", served_.name, listener_.address(),
              config_.open_page ? "open it in a browser; Ctrl-C ends it"
                                : "chat page at /, OpenAI's API under /v1, Anthropic's at /v1/messages");
    access_.warn_if_unauthenticated();
  }

  // Ready, or the reason why not. /live only shows that the process responds.
  HttpResponse health(const HttpRequest& request) const {
    const auto busy = std::max(workers_.all_busy_for(), media_.decoders.all_busy_for());
    bool stuck = loop_.in_step() > config_.watchdog || busy > config_.watchdog;
    bool broken = loop_.broken() || loop_.requests_fail();
    if (request.path == "/live" || !(draining_ || stuck || broken)) return json_response({{"status", "ok"}});
    return json_response({{"status", broken ? "broken" : stuck ? "stuck" : "draining"}}, 503);
  }

  HttpResponse wrong_method(const HttpRequest& head, const std::string& methods) const {
    auto message = fmt::format("{} is not supported here; expected {}", head.method.substr(0, 16), methods);
    auto response = response_to({405, message, "", "method_not_allowed"}, head);
    response.headers.emplace_back("Allow", methods);
    return response;
  }

  HttpResponse preflight(const HttpRequest& head) const {
    return {.status = 204,
            .headers = {{"Access-Control-Allow-Origin", std::string(head.header("origin"))},
                        {"Access-Control-Allow-Methods", "GET, POST"},
                        {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key, anthropic-version"},
                        {"Access-Control-Max-Age", "600"}}};
  }

  void record(const Exchange& exchange, const Route& route, double seconds) {
    int status = exchange.gone() && !exchange.answered() ? 499 : exchange.status();
    metrics_.answered(route.path, status, seconds);
    if (!config_.log_requests || !route.handler) return;
    auto user = exchange.user().empty() ? "" : fmt::format(" user {}", dump(exchange.user()));  // quoted: it may contain anything
    log::info("{} {} {:.0f} ms {}{}", request_line(exchange.request()), status, seconds * 1e3, exchange.id(), user);
  }

  void start_draining(int signal) {
    draining_ = true;
    log::info("signal {}: no new requests; waiting for {}", signal, counted(loop_.live_sequences(), "running request"));
    end_at_next(signals_);
    listener_.send_idle_clients_away();
    asio::co_spawn(io_, drain(config_.drain, 0), asio::detached);
  }

  // None is left when io_ stops.
  asio::awaitable<void> drain(milliseconds patience, int exit_code) {
    exit_code_ = exit_code;
    co_await under_way_.drain(listener_, patience, [this] { loop_.interrupt_all(); });
    loop_.ask_to_stop();
    for (auto deadline = Clock::now() + kLastWait; !loop_.stopped() && Clock::now() < deadline;) co_await pause(milliseconds(10));
    if (under_way_.count() > 0 || !loop_.stopped()) end_without_them();
    io_.stop();
  }

  // A thread that does not return cannot be joined, and its result is no longer awaited.
  [[noreturn]] void end_without_them() const {
    log::warning("{} requests are still being worked on; ending without them", under_way_.count());
    ::_exit(exit_code_);
  }

  // Watches the engine's thread.
  asio::awaitable<void> watch() {
    auto next_line = Clock::now() + std::chrono::seconds(config_.log_interval);
    while (true) {
      co_await pause(milliseconds(200));
      if (loop_.in_step() > config_.watchdog) co_await give_up_hung_engine();
      if (loop_.broken() && !std::exchange(draining_, true)) {
        log::error("the engine does not recover; ending");
        asio::co_spawn(io_, drain(milliseconds(1000), static_cast<int>(ExitCode::failure)), asio::detached);
      }
      if (config_.log_interval > 0 && Clock::now() >= next_line) {
        next_line += std::chrono::seconds(config_.log_interval);
        log_statistics();
      }
    }
  }

  void log_statistics() {
    auto window = metrics_.take_window();
    if (window.requests == 0) return;
    auto rate = [&](int64_t count) { return static_cast<double>(count) / std::max(window.seconds, 1e-9); };
    log::info("{}", dump({{"num_prompt_tokens", window.prompt_tokens},
                          {"num_generated_tokens", window.generated_tokens},
                          {"num_samples", window.requests},
                          {"runtime", window.seconds},
                          {"samples/s", rate(window.requests)},
                          {"tokens/s", rate(window.generated_tokens)}}));
  }

  asio::awaitable<void> give_up_hung_engine() {
    auto stats = loop_.stats();
    log::error("a step of the engine has run for {} ms, longer than `watchdog` allows", loop_.in_step().count());
    log::error("{}", dump({{"live_answers", loop_.live_sequences()},
                           {"running", stats.running},
                           {"waiting", stats.waiting},
                           {"steps", stats.steps},
                           {"blocks", stats.blocks},
                           {"blocks_used", stats.blocks_used},
                           {"clients", listener_.clients()}}));
    co_await pause(std::min(config_.watchdog, kTimeToTell));
    ::_exit(kHangExit);  // the engine's thread cannot be joined
  }

  const ServerConfig& config_;
  const ServedModel& served_;
  Access access_;
  Workers workers_{kWorkers};
  MediaThreads media_;
  asio::io_context io_{1};
  EngineLoop loop_;
  Metrics metrics_;
  Adapters adapters_;
  Admission admission_{loop_, metrics_};
  Context context_{.served = served_,
                   .loop = loop_,
                   .metrics = metrics_,
                   .adapters = adapters_,
                   .admission = admission_,
                   .workers = workers_,
                   .media = media_,
                   .result_file = config_.result_file,
                   .sleep_allowed = config_.sleep_allowed,
                   .weights = config_.weights.get()};
  std::shared_ptr<asio::ssl::context> tls_;
  Listener listener_;
  asio::signal_set signals_;
  InFlightRequests under_way_;
  bool draining_ = false;
  int exit_code_ = 0;
};

}  // namespace

void require_port(const ServerConfig& config) {
  if (config.port_fixed) require_port(config.host, config.port);
}

int run_server(engine::Engine& engine, const ServedModel& served, const ServerConfig& config,
               const std::map<std::string, std::filesystem::path>& adapters) {
  return Server(engine, served, config, adapters).run();
}

}  // namespace hone::serve
