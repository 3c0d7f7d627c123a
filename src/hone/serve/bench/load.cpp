#include "hone/serve/bench/load.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cmath>
#include <map>

#include "hone/base/rng.h"

namespace hone::serve {
namespace {

constexpr const char* kWords[] = {"river",   "stone",  "light",  "morning",  "paper",  "engine", "garden",
                                  "window",  "number", "story",  "question", "answer", "summer", "market",
                                  "teacher", "music",  "bridge", "forest",   "letter", "color"};

std::string body_of(const LoadConfig& config, uint64_t index) {
  Rng rng(config.seed, index);
  std::string prompt = fmt::format("Text {}:", index);  // no common prefixes, so that no server can reuse cached ones
  for (int64_t i = 0; i < config.prompt_words; ++i) prompt += fmt::format(" {}", kWords[rng.below(std::size(kWords))]);
  Json body{{"messages", Json::array({{{"role", "user"}, {"content", prompt}}})},
            {"max_tokens", config.max_tokens},
            {"temperature", config.temperature},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}}};
  if (!config.model.empty()) body["model"] = config.model;
  if (config.ignore_eos) body["ignore_eos"] = true;
  return body.dump();
}

class Load {
 public:
  Load(const LoadConfig& config, const std::function<void(int64_t)>& progress)
      : config_(config), progress_(progress), url_(Url::parse_openai(config.url, "url")) {
    if (url_.tls) tls_ = tls_client_context();
    draw_arrivals();
  }

  LoadResult run() {
    result_.requests.resize(static_cast<size_t>(config_.requests));
    began_ = Clock::now();
    if (config_.rate > 0)
      asio::co_spawn(io_, send_when_due(), asio::detached);
    else
      for (int64_t i = 0; i < std::min(config_.concurrency, config_.requests); ++i) asio::co_spawn(io_, work(), asio::detached);
    io_.run();
    result_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    return std::move(result_);
  }

 private:
  // Poisson arrivals: the gaps are exponential.
  void draw_arrivals() {
    Rng rng(config_.seed, ~uint64_t{0});
    double at = 0;
    for (int64_t i = 0; config_.rate > 0 && i < config_.requests; ++i) {
      arrivals_.push_back(at);
      at -= std::log(1.0 - rng.uniform()) / config_.rate;
    }
  }

  asio::awaitable<void> work() {
    BenchClient client(url_, config_.api_key, tls_);
    while (next_ < config_.requests) co_await ask(client, static_cast<size_t>(next_++), Clock::now());
  }

  // A request is sent at its scheduled time however slow the server is, and its clock starts then: queueing is measured.
  asio::awaitable<void> send_when_due() {
    asio::steady_timer timer(io_);
    for (size_t index = 0; index < arrivals_.size(); ++index) {
      auto due = began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrivals_[index]));
      timer.expires_at(due);
      co_await timer.async_wait(asio::use_awaitable);
      asio::co_spawn(io_, arrive(index, due), asio::detached);
    }
  }

  asio::awaitable<void> arrive(size_t index, Clock::time_point due) {
    if (idle_.empty()) idle_.push_back(std::make_unique<BenchClient>(url_, config_.api_key, tls_));
    auto client = std::move(idle_.back());
    idle_.pop_back();
    co_await ask(*client, index, due);
    idle_.push_back(std::move(client));
  }

  asio::awaitable<void> ask(BenchClient& client, size_t index, Clock::time_point sent) {
    auto result = co_await client.ask(body_of(config_, index), sent);
    result_.requests[index] = std::move(result);
    progress_(++done_);
  }

  const LoadConfig& config_;
  const std::function<void(int64_t)>& progress_;
  Url url_;
  std::shared_ptr<asio::ssl::context> tls_;
  asio::io_context io_{1};
  std::vector<double> arrivals_;                    // with a request rate
  std::vector<std::unique_ptr<BenchClient>> idle_;  // idle connections
  LoadResult result_;
  Clock::time_point began_;
  int64_t next_ = 0, done_ = 0;
};

Json spread_json(const LatencyStats& spread) {
  return {{"mean", spread.mean}, {"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}, {"max", spread.worst}};
}

}  // namespace

LoadResult run_load(const LoadConfig& config, const std::function<void(int64_t)>& progress) {
  return Load(config, progress).run();
}

LatencyStats LatencyStats::of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto at = [&](double part) {
    return values[std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())))];
  };
  double sum = 0;
  for (double value : values) sum += value;
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.9), at(0.99), values.back()};
}

LoadSummary summarize(const LoadResult& result) {
  LoadSummary summary{.seconds = result.seconds};
  std::vector<double> first, between, whole;
  std::map<std::string, int64_t> errors;
  auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& request : result.requests) {
    if (!request.error.empty()) {
      ++errors[request.error];
      ++summary.failed;
      continue;
    }
    ++summary.done;
    summary.prompt_tokens += request.prompt_tokens;
    summary.tokens += request.tokens;
    first.push_back(seconds(request.first - request.sent));
    whole.push_back(seconds(request.last - request.sent));
    between.insert(between.end(), request.gaps.begin(), request.gaps.end());
  }
  summary.first_token = LatencyStats::of(std::move(first));
  summary.inter_token = LatencyStats::of(std::move(between));
  summary.end_to_end = LatencyStats::of(std::move(whole));
  summary.errors.assign(errors.begin(), errors.end());
  return summary;
}

Json to_json(const LoadSummary& summary) {
  Json errors = Json::object();
  for (const auto& [what, count] : summary.errors) errors[what] = count;
  double seconds = std::max(summary.seconds, 1e-9);
  return {{"requests", summary.done},
          {"failed", summary.failed},
          {"errors", errors},
          {"seconds", summary.seconds},
          {"requests_per_second", static_cast<double>(summary.done) / seconds},
          {"prompt_tokens", summary.prompt_tokens},
          {"output_tokens", summary.tokens},
          {"output_tokens_per_second", static_cast<double>(summary.tokens) / seconds},
          {"time_to_first_token", spread_json(summary.first_token)},
          {"inter_token_latency", spread_json(summary.inter_token)},
          {"request_latency", spread_json(summary.end_to_end)}};
}

}  // namespace hone::serve
