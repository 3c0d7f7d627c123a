// Load test of any OpenAI-compatible server: many concurrent streaming chats, and their latencies.
#pragma once
#include <functional>

#include "hone/serve/bench/client.h"

namespace hone::serve {

struct LoadConfig {
  std::string url, api_key, model;  // an empty model lets the server choose
  int64_t requests = 100;
  int64_t concurrency = 8;  // at a time, when there is no rate
  double rate = 0;          // requests a second, at random times, however many are under way; 0: as soon as another is done
  int64_t prompt_words = 100, max_tokens = 100;
  double temperature = 0;
  bool ignore_eos = true;  // completions of the full length, if the server supports it
  uint64_t seed = 0;
};

struct LoadResult {
  std::vector<RequestResult> requests;
  double seconds = 0;
};
LoadResult run_load(const LoadConfig& config, const std::function<void(int64_t done)>& progress);

struct LatencyStats {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, worst = 0;
  static LatencyStats of(std::vector<double> values);
};

struct LoadSummary {
  int64_t done = 0, failed = 0, prompt_tokens = 0, tokens = 0;
  double seconds = 0;
  LatencyStats first_token, inter_token, end_to_end;  // seconds
  std::vector<std::pair<std::string, int64_t>> errors;
};
LoadSummary summarize(const LoadResult& result);
Json to_json(const LoadSummary& summary);

}  // namespace hone::serve
