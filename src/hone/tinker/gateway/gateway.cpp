#include "hone/tinker/gateway/gateway.h"

#include "hone/base/log.h"
#include "hone/base/strings/percent.h"
#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"
#include "hone/tinker/gateway/destination.h"
#include "hone/tinker/gateway/merged_responses.h"
#include "hone/tinker/service.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

using serve::ApiError;
using serve::Clock;
using serve::Exchange;
using serve::HttpRequest;
using serve::HttpResponse;

constexpr std::chrono::seconds kWaitForWorker{20};  // the SDK retries a request after 60
constexpr std::chrono::seconds kHoldPoll{32};       // a worker holds one for 30, the SDK for 45
constexpr serve::UpstreamLimits kResultLimits{.time = std::chrono::seconds(40), .body_bytes = size_t{1} << 30};

class TinkerGateway : public TinkerService {
 public:
  explicit TinkerGateway(const GatewayConfig& config)
      : TinkerService(config.http, config.keys, "gateway"),
        config_(config),
        directory_(io(), config.workers),
        merged_(directory_) {}

  int run() {
    announce(fmt::format("a gateway to {} workers", directory_.workers().size()), "to the tinker SDK; OpenAI's API is under /v1");
    directory_.start();
    return serve_until_stopped();
  }

 private:
  ApiError reported(ApiError problem, const HttpRequest& request) override {
    if (problem.status == 502) problem = unreachable_worker();
    if (problem.code == kUnknownModel && request.path.starts_with("/v1/")) problem.status = 404;
    return problem;
  }

  asio::awaitable<void> dispatch(Exchange& exchange) override {
    const auto& request = exchange.request();
    auto found = find_route(request.method, request.path);
    const auto tenant = config_.keys.tenant_of(key_of(request)).value_or("");
    const Call call{tenant, request, std::move(found.parts)};
    const auto path = found.route ? found.route->path : OpenAiApi::find_route(request.method, request.path)->path;
    try {
      co_await dispatch(exchange, call, path);
    } catch (const RequestError& problem) {
      throw ApiError(400, problem.what(), "", "invalid_request");
    }
  }

  asio::awaitable<void> dispatch(Exchange& exchange, const Call& call, std::string_view path) {
    if (path == kRetrieveFuture) {
      co_await retrieve(exchange, call);
    } else if (path == kArchive) {
      co_await download(exchange, call);
    } else if (begins_in_session(path, call)) {
      co_await begin_in_session(exchange, call);
    } else {
      auto merged = merged_response(path, call);
      if (!merged) {
        co_await forward(exchange, call);
        co_return;
      }
      auto response = co_await std::move(*merged);
      co_await exchange.respond(std::move(response));
    }
  }

  // Requests answered here, or merged from the responses of all workers. None: it belongs to one worker.
  std::optional<MergedResponses::PendingResponse> merged_response(std::string_view path, const Call& call) {
    if (path == kHealth) return own(serve::json_response({{"status", "ok"}}));
    if (path == "/" || path == "/status/{}") return own(status_file(call));
    if (path == "/api/v1/telemetry") return own(serve::json_response({{"status", "accepted"}}));
    if (path.ends_with("/get_server_capabilities")) return merged_.capabilities(call);
    if (path == "/v1/models") return merged_.openai_models(call);
    if (path.ends_with("/training_runs")) return merged_.list(call, "training_runs", "last_request_time", 20);
    if (path == "/api/v1/checkpoints") return merged_.list(call, "checkpoints", "time", 100);
    if (path == "/api/v1/sessions") return merged_.sessions(call);
    if (path == "/api/v1/sessions/{}") return merged_.session(call);
    if (path == "/api/v1/cancel_future") return merged_.cancel_future(call);
    if (path == "/api/v1/sessions/{}/finish") return merged_.finish_session(call);
    if (path.ends_with("/create_session")) return merged_.create_session(call);
    if (path.ends_with("/session_heartbeat")) return merged_.heartbeat(call);
    if (path == "/api/v1/status" || path == "/api/v1/twinkle/status") return merged_.status(call);
    if (path == "/metrics") return merged_.metrics(call);
    if (path == "/api/v1/twinkle/capacity_info") return merged_.capacity(call);
    if (path.starts_with("/api/v1/twinkle/healthz")) return merged_.health(call);
    return std::nullopt;
  }

  static MergedResponses::PendingResponse own(HttpResponse response) { co_return response; }

  Directory::Asking asking(const Call& call, std::chrono::seconds patience = kWaitForWorker) const {
    return {call.tenant, call.request, Clock::now() + patience};
  }

  asio::awaitable<std::shared_ptr<Worker>> worker_of(Destination to, Directory::Asking asking) {
    std::shared_ptr<Worker> worker;
    switch (to.kind) {
      case Destination::Kind::model:
        worker = co_await directory_.of_model(asking, to.name);
        break;
      case Destination::Kind::run:
        worker = co_await directory_.of_run(asking, to.name);
        break;
      case Destination::Kind::sampler:
        worker = co_await directory_.of_sampler(asking, to.name);
        break;
      case Destination::Kind::checkpoint:
        worker = co_await directory_.of_checkpoint(asking, to.name);
        break;
      case Destination::Kind::any:
        worker = co_await directory_.any(asking);
        break;
    }
    const bool alive = co_await worker->until_alive(asking.deadline);
    if (!alive) throw unreachable_worker();
    co_return worker;
  }

  // The only model, if the request names none.
  asio::awaitable<Destination> destination(const Call& call) {
    auto to = destination_of(call);
    if (to.kind == Destination::Kind::model && to.name.empty()) {
      co_await directory_.learn_models(call.request);
      const auto names = directory_.model_names();
      if (names.size() != 1)
        throw ApiError(400, fmt::format("no model is named; the workers have {}", fmt::join(names, ", ")), "model");
      to.name = names.front();
    }
    co_return to;
  }

  asio::awaitable<void> forward(Exchange& exchange, const Call& call) {
    auto to = co_await destination(call);
    auto worker = co_await worker_of(std::move(to), asking(call));
    auto request = forwarded(call.request);
    if (!call.request.path.ends_with("/archive")) {
      co_await worker->forward(exchange, std::move(request));
      co_return;
    }
    auto response = co_await worker->ask(std::move(request), kResultLimits, &exchange);
    if (response.status == 302) response = archive_at_this_address(response, *worker, call);
    co_await exchange.respond(std::move(response));
  }

  // The worker's address is not for clients; the worker's index precedes the archive's name.
  HttpResponse archive_at_this_address(const HttpResponse& response, const Worker& worker, const Call& call) const {
    constexpr std::string_view kArchives = "/api/v1/archives/";
    std::string location;
    for (const auto& [name, value] : response.headers)
      if (name == "Location") location = value;
    const auto path = location.find(kArchives);
    if (path == location.npos) throw unreachable_worker();
    const auto address = fmt::format("{}://{}{}{}-{}", uses_tls() ? "https" : "http", call.request.header("host"), kArchives,
                                     worker.number(), location.substr(path + kArchives.size()));
    auto moved = serve::json_response({{"url", address}}, 302);
    moved.headers.emplace_back("Location", address);
    return moved;
  }

  asio::awaitable<void> download(Exchange& exchange, const Call& call) {
    const auto& name = call.parts.at(0);
    const auto dash = name.find('-');
    for (const auto& worker : directory_.workers()) {
      if (dash == name.npos || name.substr(0, dash) != std::to_string(worker->number())) continue;
      const auto it = worker;
      const bool alive = co_await it->until_alive(Clock::now() + kWaitForWorker);
      if (!alive) throw unreachable_worker();
      serve::UpstreamRequest request{"GET", "/api/v1/archives/" + percent_encoded(name.substr(dash + 1)), {}, {}};
      co_await it->forward(exchange, std::move(request));
      co_return;
    }
    throw not_found("archive of this address any more");
  }

  // A worker started after the session learns of it first.
  asio::awaitable<void> begin_in_session(Exchange& exchange, const Call& call) {
    const auto session = required_text(body_of(call), "session_id");
    auto to = co_await destination(call);
    auto worker = co_await worker_of(std::move(to), asking(call));
    auto request = forwarded(call.request);
    auto response = co_await worker->ask(std::move(request), kResultLimits, &exchange);
    bool adopted = false;
    if (response.status == 404) adopted = co_await merged_.adopt_session(*worker, call, session);
    if (adopted) {
      auto again = forwarded(call.request);
      response = co_await worker->ask(std::move(again), kResultLimits, &exchange);
    }
    co_await exchange.respond(std::move(response));
  }

  // A poll whose worker is unavailable waits for its return: for the client the result only takes longer.
  asio::awaitable<void> retrieve(Exchange& exchange, const Call& call) {
    const auto id = required_text(body_of(call), "request_id");
    const auto deadline = Clock::now() + kHoldPoll;
    while (!is_draining() && !exchange.gone() && Clock::now() < deadline) {
      std::optional<HttpResponse> response;
      try {
        response = co_await poll(exchange, call, id, deadline);
      } catch (const ApiError& problem) {
        if (problem.status != 502 && problem.status != 503) throw;
      }
      if (response) {
        co_await exchange.respond(std::move(*response));
        co_return;
      }
      co_await serve::pause(std::chrono::milliseconds(100));
    }
    auto pending = serve::json_response({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}}, 408);
    co_await exchange.respond(std::move(pending));
  }

  asio::awaitable<HttpResponse> poll(Exchange& exchange, const Call& call, const std::string& id, Clock::time_point deadline) {
    Directory::Asking asked{call.tenant, call.request, deadline};
    auto to = destination_of_future(id);
    if (to.kind != Destination::Kind::any) {
      std::shared_ptr<Worker> worker;
      try {
        worker = co_await worker_of(to, asked);
      } catch (const ApiError& problem) {
        if (problem.status != 404 || to.kind != Destination::Kind::sampler) throw;
        throw ApiError(410, fmt::format("the result of {} is not kept any more; send the request again", id), "", "gone");
      }
      auto request = forwarded(call.request);
      auto response = co_await worker->ask(std::move(request), kResultLimits, &exchange);
      co_return response;
    }
    // A sample without a session: an unknown one fails at once.
    std::optional<HttpResponse> last;
    const auto workers = directory_.workers();
    for (const auto& worker : workers) {
      if (!worker->is_alive()) continue;
      auto request = forwarded(call.request);
      last = co_await worker->ask(std::move(request), kResultLimits, &exchange);
      if (last->status != 410) break;
    }
    if (!last) throw unreachable_worker();
    co_return std::move(*last);
  }

  void on_draining(int signal) override { log::info("signal {}: no new requests; the workers continue", signal); }

  void interrupt() override { listener().close_clients(); }

  const GatewayConfig& config_;
  Directory directory_;
  MergedResponses merged_;
};

}  // namespace

int run_tinker_gateway(const GatewayConfig& config) { return TinkerGateway(config).run(); }

}  // namespace hone::tinker
