#include "hone/tinker/server.h"

#include <boost/asio/detached.hpp>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/trimmed.h"
#include "hone/serve/workers.h"
#include "hone/tinker/api/audit.h"
#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"
#include "hone/tinker/service.h"
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

constexpr size_t kWorkers = 16;                // most wait for a commit, which they share
constexpr std::chrono::seconds kLongPoll{30};  // the SDK's timeout is 45 s
constexpr std::chrono::seconds kTidyEvery{20};
constexpr std::chrono::minutes kAbandonedAfter{2};         // the SDK's heartbeats are 10 seconds apart, its retries 30 at most
constexpr double kKeepResults = 3600, kKeepSamples = 900;  // seconds

// For metrics: "" is any path without a route.
std::string_view pattern_of(const HttpRequest& request) {
  if (auto found = find_route(request.method, request.path); found.route) return found.route->path;
  const auto* route = OpenAiApi::find_route(request.method, request.path);
  return route ? route->path : std::string_view();
}

class TinkerServer : public TinkerService {
 public:
  TinkerServer(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served, const TinkerConfig& config)
      : TinkerService(config.http, config.keys, "server"),
        config_(config),
        store_(config.model.root / "state.sqlite"),
        futures_(io()),
        rate_(config.keys.limits()),
        metrics_(served.name),
        audit_(config.model.root / "audit.jsonl"),
        loop_(
            model, engine, io(), store_, config.model, [this](const std::string& future) { futures_.notify(future); },
            [this](const std::string& id, Outcome outcome) { futures_.finish_sample(id, std::move(outcome)); }),
        openai_(served, services_, workers_, media_),
        twinkle_(served, services_, workers_) {
    remove_unnamed_folders(config.model.root, store_);
    loop_.start();
  }

  ~TinkerServer() override {
    loop_.stop();
    workers_.join();
    media_.join();
  }

  int run() {
    announce(config_.api.base_model, "to the tinker SDK; OpenAI's API is under /v1, Anthropic's at /v1/messages");
    asio::co_spawn(io(), tidy(), asio::detached);
    return serve_until_stopped();
  }

  void on_rejected(const HttpRequest& head, int status) override {
    metrics_.on_rejected(pattern_of(head), status);
    if (config_.http.log_requests) log::info("{} {}", serve::request_line(head), status);
  }

 private:
  void on_response(const Exchange& exchange, double seconds) override {
    metrics_.count_response(pattern_of(exchange.request()), exchange.status(), seconds);
    TinkerService::on_response(exchange, seconds);
  }

  asio::awaitable<void> dispatch(Exchange& exchange) override {
    auto found = find_route(exchange.request().method, exchange.request().path);
    const auto tenant = config_.keys.tenant_of(key_of(exchange.request())).value_or("");
    Call call{tenant, exchange.request(), std::move(found.parts)};
    if (!found.route) {
      co_await openai_.dispatch(exchange, *OpenAiApi::find_route(exchange.request().method, exchange.request().path), tenant);
    } else if (found.route->path == kHealth) {
      auto response = serve::json_response({{"status", "ok"}});
      co_await exchange.respond(std::move(response));
    } else if (found.route->path == kRetrieveFuture) {
      co_await retrieve(exchange, call);
    } else if (found.route->path == kArchive) {
      co_await download(exchange, call);
    } else if (found.route->path == kTwinkleModel || found.route->path == kTwinkleSampler ||
               found.route->path == kTwinkleProcessor) {
      co_await answer_twinkle(exchange, *found.route, call);
    } else {
      std::optional<ModelLoop::Announcement> announcement;
      if (found.route->is_training()) call.announcement = &announcement.emplace(loop_);
      auto response = co_await workers_.run([&] {
        auto made = respond(*found.route, call);
        announcement.reset();
        return made;
      });
      co_await exchange.respond(std::move(response));
    }
  }

  asio::awaitable<void> answer_twinkle(Exchange& exchange, const Route& route, const Call& call) {
    std::optional<HttpResponse> response;
    try {
      if (route.path == kTwinkleModel)
        response = co_await twinkle_.handle_model(exchange, call);
      else if (route.path == kTwinkleProcessor)
        response = co_await twinkle_.handle_processor(call);
      else
        response = co_await twinkle_.handle_sampler(exchange, call);
    } catch (const RequestError& problem) {
      throw ApiError(400, problem.what(), "", "invalid_request");
    }
    if (call.parts.back() == "add_adapter_to_model" || call.parts.back() == "save") audit_.write(call, response->status);
    co_await exchange.respond(std::move(*response));
  }

  HttpResponse respond(const Route& route, const Call& call) {
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

  // Waits for the result, but less than the client's timeout: the client polls again at once.
  asio::awaitable<void> retrieve(Exchange& exchange, const Call& call) {
    std::string id;
    try {
      id = required_text(body_of(call), "request_id");
    } catch (const RequestError& problem) {
      throw ApiError(400, problem.what(), "request_id", "invalid_request");
    }
    const auto deadline = Clock::now() + kLongPoll;
    futures_.note_poll(id, call.tenant);
    while (true) {
      auto signal = futures_.watch(id);
      auto response = co_await workers_.run([&] { return result_of(services_, call, id); });
      if (response) {
        co_await exchange.respond(std::move(*response));
        co_return;
      }
      if (is_draining() || exchange.gone() || Clock::now() >= deadline) break;
      co_await signal->wait_until(deadline);
    }
    if (exchange.gone())
      futures_.note_disconnect(id, call.tenant);
    else
      futures_.note_poll(id, call.tenant);
    auto pending = serve::json_response({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}}, 408);
    co_await exchange.respond(std::move(pending));
  }

  // Read by a worker thread, a piece at a time, as fast as the client takes it.
  asio::awaitable<void> download(Exchange& exchange, const Call& call) {
    auto archive = co_await workers_.run([&] { return open_archive(services_, call); });
    HttpResponse head{.status = 200, .body = {}, .content_type = "application/x-tar", .headers = {}};
    if (exchange.request().head_only) {
      co_await exchange.respond(std::move(head));
      co_return;
    }
    bool listens = co_await exchange.start_stream(std::move(head));
    while (listens) {
      const auto piece = co_await workers_.run([&] { return archive->next(); });
      if (piece.empty()) break;
      listens = co_await exchange.send(piece);
    }
    if (listens) co_await exchange.finish_events();
  }

  asio::awaitable<void> tidy() {
    while (true) {
      co_await serve::pause(kTidyEvery);
      try {
        co_await workers_.run([this] {
          remove_expired(store_);
          store_.forget_results(kKeepResults);
          futures_.forget(kKeepSamples);
          futures_.drop_abandoned(kAbandonedAfter, [this](const std::string& sample) { loop_.cancel_sample(sample); });
          return true;
        });
      } catch (const std::exception& problem) {
        log::error("tidying up: {}", problem.what());
      }
    }
  }

  void on_draining(int signal) override {
    log::info("signal {}: no new requests; what was accepted continues at the next start", signal);
    futures_.notify_all();
  }

  void interrupt() override { loop_.engine().interrupt_all(); }

  const TinkerConfig& config_;
  serve::Workers workers_{kWorkers};
  serve::MediaThreads media_;
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
};

}  // namespace

void check_state_folder(const std::filesystem::path& root, const std::string& base_model) {
  const train::RunLock lock(root, "tinker_dir");
  Store store(root / "state.sqlite");
  const auto file = root / "base_model";
  const auto known = std::filesystem::exists(file) ? trimmed(read_file(file)) : "";
  if (known == base_model) return;
  if (!known.empty() && store.has_weights())
    throw UserError(
        ExitCode::usage,
        fmt::format("{} has training runs or checkpoints of \"{}\"; the model is \"{}\"", root.string(), known, base_model),
        fmt::format("name another `tinker_dir`; if it is the same model in another place, add `served_model_name` {}", known));
  write_file_atomically(file, base_model + "\n");
}

int run_tinker_server(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served,
                      const TinkerConfig& config) {
  const train::RunLock lock(config.model.root, "tinker_dir");  // one server per folder; checked before opening the port
  return TinkerServer(model, engine, served, config).run();
}

}  // namespace hone::tinker
