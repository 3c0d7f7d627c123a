// Metrics for /metrics and the log's statistics: requests, tokens, latencies. Thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "hone/engine/engine.h"

namespace hone::serve {

class Metrics {
 public:
  explicit Metrics(const std::string& model);
  ~Metrics();

  void count_response(std::string_view path, int status, double seconds);
  void refused();  // because the server is full
  void on_rejected(std::string_view path,
                   int status);  // before its body was read; `path` is a route's, or "" for all that is none
  void first_token(double seconds);
  void inter_token_latency(double seconds);
  void finished(int64_t prompt_tokens, int64_t generated_tokens, double seconds);

  // Prometheus' text format; gauges are set from `stats` first.
  std::string text(const engine::Stats& stats, size_t live_sequences, size_t non_generating_requests);

  // Totals since the last call, for the log line.
  struct Window {
    int64_t requests = 0, prompt_tokens = 0, generated_tokens = 0;
    double seconds = 0;
  };
  Window take_window();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::serve
