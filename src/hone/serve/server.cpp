#include "hone/serve/server.h"

#include <unistd.h>

#include <boost/asio/detached.hpp>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/serve/http_service.h"
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

class Server : public HttpService {
 public:
  Server(engine::Engine& engine, const ServedModel& served, const ServerConfig& config,
         const std::map<std::string, std::filesystem::path>& adapters)
      : HttpService(config, config.api_key),
        served_(served),
        loop_(engine, io(), config.engine),
        metrics_(served.name),
        adapters_(config.adapter_root, config.max_adapters) {
    for (const auto& [name, folder] : adapters) adapters_.add(name, {folder, served.created, true});
  }

  ~Server() override {
    loop_.stop();
    workers_.join();
    media_.join();
  }

  int run() {
    announce(served_.name, config().open_page ? "(open it in a browser; Ctrl-C ends it)"
                                              : "(chat page at /, OpenAI's API under /v1, Anthropic's at /v1/messages)");
    access().warn_if_unauthenticated();
    asio::co_spawn(io(), watch(), asio::detached);
    return serve_until_stopped();
  }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    const Route* route = find_route(head.method, head.path);
    auto methods = methods_of(head.path);
    if (head.method == "OPTIONS" && !methods.empty() && access().allows_origin(head.header("origin"))) return preflight(head);
    bool open = route && route->audience == Audience::everyone;
    if (!open)
      if (auto refusal = refuse_access(head)) return refusal;
    if (!route && methods.empty())
      return error_response({404, "unknown path; /openapi.json lists all paths", "", "not_found"}, head);
    if (!route) return wrong_method(head, methods);
    if (is_draining() && route->handler) return error_response(interruption(), head);
    return std::nullopt;
  }

  void on_rejected(const HttpRequest& head, int status) override {
    const Route* route = find_route(head.method, head.path);
    metrics_.on_rejected(route ? route->path : std::string_view(), status);
    if (status == 429) metrics_.refused();
    if (config().log_requests) log::info("{} {}", request_line(head), status);
  }

 private:
  asio::awaitable<void> dispatch(Exchange& exchange) override {
    auto origin = exchange.request().header("origin");
    if (!origin.empty() && access().allows_origin(origin))
      exchange.add_header("Access-Control-Allow-Origin", std::string(origin));
    const Route* route = find_route(exchange.request().method, exchange.request().path);
    if (route->handler)
      co_await route->handler(exchange, context_);
    else
      co_await exchange.respond(health(exchange.request()));
  }

  HttpResponse error_response(const ApiError& problem, const HttpRequest& request) const override {
    return speaks_anthropic(request) ? anthropic_problem(problem) : problem_response(problem);
  }

  // Ready, or the reason why not. /live only shows that the process responds.
  HttpResponse health(const HttpRequest& request) const {
    const auto busy = std::max(workers_.all_busy_for(), media_.decoders.all_busy_for());
    bool stuck = loop_.in_step() > config().watchdog || busy > config().watchdog;
    bool broken = loop_.broken() || loop_.requests_fail();
    if (request.path == "/live" || !(is_draining() || stuck || broken)) return json_response({{"status", "ok"}});
    return json_response({{"status", broken ? "broken" : stuck ? "stuck" : "draining"}}, 503);
  }

  HttpResponse wrong_method(const HttpRequest& head, const std::string& methods) const {
    auto message = fmt::format("{} is not supported here; expected {}", head.method.substr(0, 16), methods);
    auto response = error_response({405, message, "", "method_not_allowed"}, head);
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

  void on_response(const Exchange& exchange, double seconds) override {
    const Route& route = *find_route(exchange.request().method, exchange.request().path);
    int status = exchange.gone() && !exchange.has_response() ? 499 : exchange.status();
    metrics_.count_response(route.path, status, seconds);
    if (!config().log_requests || !route.handler) return;
    auto user = exchange.user().empty() ? "" : fmt::format(" user {}", dump(exchange.user()));  // quoted: it may contain anything
    log::info("{} {} {:.0f} ms {}{}", request_line(exchange.request()), status, seconds * 1e3, exchange.id(), user);
  }

  void on_draining(int signal) override {
    log::info("signal {}: no new requests; waiting for {}", signal, counted(loop_.live_sequences(), "running request"));
  }

  void interrupt() override { loop_.interrupt_all(); }

  asio::awaitable<bool> finish() override {
    loop_.request_stop();
    for (auto deadline = Clock::now() + kLastWait; !loop_.stopped() && Clock::now() < deadline;) co_await pause(milliseconds(10));
    const bool finished = in_flight().count() == 0 && loop_.stopped();
    if (!finished) log::warning("{} requests are still being worked on; ending without them", in_flight().count());
    co_return finished;
  }

  // Watches the engine's thread.
  asio::awaitable<void> watch() {
    auto next_line = Clock::now() + std::chrono::seconds(config().log_interval);
    while (true) {
      co_await pause(milliseconds(200));
      if (loop_.in_step() > config().watchdog) co_await give_up_hung_engine();
      if (loop_.broken() && !is_draining()) {
        log::error("the engine does not recover; ending");
        end(milliseconds(1000), static_cast<int>(ExitCode::failure));
      }
      if (config().log_interval > 0 && Clock::now() >= next_line) {
        next_line += std::chrono::seconds(config().log_interval);
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
                           {"clients", listener().clients()}}));
    co_await pause(std::min(config().watchdog, kTimeToTell));
    ::_exit(kHangExit);  // the engine's thread cannot be joined
  }

  const ServedModel& served_;
  Workers workers_{kWorkers};
  MediaThreads media_;
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
                   .result_file = config().result_file,
                   .sleep_allowed = config().sleep_allowed,
                   .weights = config().weights.get()};
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
