#include "hone/serve/admin/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <mutex>

namespace hone::serve {

using prometheus::Histogram;

struct Metrics::Impl {
  explicit Impl(const std::string& model) : labels{{"model_name", model}} {}

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& histogram(const char* name, const char* help) {
    static const Histogram::BucketBoundaries kSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,      2.5,   5,    10,    30,   60,  300};
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, kSeconds);
  }

  prometheus::Registry registry;
  prometheus::Labels labels;
  prometheus::Family<prometheus::Counter>& responses =
      prometheus::BuildCounter().Name("hone_http_responses_total").Help("Responses by path and status.").Register(registry);
  Histogram& http_seconds =
      histogram("hone_http_request_seconds", "From the last byte of a request to the last byte of its response.");
  prometheus::Counter& refused = counter("hone_requests_refused_total", "Requests rejected because the queue was full.");
  prometheus::Counter& finished = counter("hone_requests_finished_total", "Completed requests.");
  prometheus::Counter& prompt_tokens = counter("hone_prompt_tokens_total", "Tokens of prompts.");
  prometheus::Counter& generated_tokens = counter("hone_generation_tokens_total", "Tokens of completions.");
  Histogram& first_token = histogram("hone_time_to_first_token_seconds", "From a request to its first token.");
  Histogram& between_tokens = histogram("hone_inter_token_seconds", "Inter-token latency of streamed responses.");
  Histogram& whole = histogram("hone_request_seconds", "From a request to its last token.");
  prometheus::Gauge& running = gauge("hone_requests_running", "Sequences being generated.");
  prometheus::Gauge& waiting = gauge("hone_requests_waiting", "Sequences waiting for the engine.");
  prometheus::Gauge& live = gauge("hone_requests_live", "Sequences in flight.");
  prometheus::Gauge& beside = gauge("hone_requests_beside", "Requests being read or prepared, or answered without generating.");
  prometheus::Gauge& blocks = gauge("hone_cache_blocks", "Blocks of the cache.");
  prometheus::Gauge& blocks_used = gauge("hone_cache_blocks_used", "KV blocks in use.");
  prometheus::Gauge& steps = gauge("hone_engine_steps", "Steps since the start.");
  prometheus::Gauge& preemptions = gauge("hone_preemptions", "Sequences preempted because the KV cache was full, since start.");
  prometheus::Gauge& cached = gauge("hone_prefix_cached_tokens", "Prompt tokens found in the prefix cache since the start.");

  std::mutex mutex;
  Window window;
  std::chrono::steady_clock::time_point window_began = std::chrono::steady_clock::now();
};

Metrics::Metrics(const std::string& model) : impl_(std::make_unique<Impl>(model)) {}
Metrics::~Metrics() = default;

void Metrics::count_response(std::string_view path, int status, double seconds) {
  impl_->responses.Add({{"path", std::string(path)}, {"status", std::to_string(status)}}).Increment();
  impl_->http_seconds.Observe(seconds);
}

void Metrics::on_rejected(std::string_view path, int status) {
  impl_->responses.Add({{"path", path.empty() ? "other" : std::string(path)}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::refused() { impl_->refused.Increment(); }
void Metrics::first_token(double seconds) { impl_->first_token.Observe(seconds); }
void Metrics::inter_token_latency(double seconds) { impl_->between_tokens.Observe(seconds); }

void Metrics::finished(int64_t prompt_tokens, int64_t generated_tokens, double seconds) {
  impl_->finished.Increment();
  impl_->prompt_tokens.Increment(static_cast<double>(prompt_tokens));
  impl_->generated_tokens.Increment(static_cast<double>(generated_tokens));
  impl_->whole.Observe(seconds);
  std::lock_guard lock(impl_->mutex);
  ++impl_->window.requests;
  impl_->window.prompt_tokens += prompt_tokens;
  impl_->window.generated_tokens += generated_tokens;
}

std::string Metrics::text(const engine::Stats& stats, size_t live_sequences, size_t non_generating_requests) {
  auto set = [](prometheus::Gauge& gauge, auto value) { gauge.Set(static_cast<double>(value)); };
  set(impl_->running, stats.running), set(impl_->waiting, stats.waiting), set(impl_->live, live_sequences);
  set(impl_->beside, non_generating_requests);
  set(impl_->blocks, stats.blocks), set(impl_->blocks_used, stats.blocks_used), set(impl_->steps, stats.steps);
  set(impl_->preemptions, stats.preemptions), set(impl_->cached, stats.cached_tokens);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

Metrics::Window Metrics::take_window() {
  std::lock_guard lock(impl_->mutex);
  auto now = std::chrono::steady_clock::now();
  auto window = std::exchange(impl_->window, {});
  window.seconds = std::chrono::duration<double>(now - std::exchange(impl_->window_began, now)).count();
  return window;
}

}  // namespace hone::serve
