// Rows per second from a JSONL file to conversations, in order, shuffled and streamed; and what a large file costs in memory and
// time to open. HONE_BENCH_MB sets the size of the generated file (default 256), HONE_BENCH_FILE uses an existing one.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hone/data/datasets/open_datasets.h"

namespace {

using namespace hone::data;

std::string bench_file() {
  if (const char* given = std::getenv("HONE_BENCH_FILE")) return given;
  static const std::string path = [] {
    const char* size = std::getenv("HONE_BENCH_MB");
    auto bytes = static_cast<size_t>(size ? std::atoll(size) : 256) << 20;
    auto file = (std::filesystem::temp_directory_path() / fmt::format("hone_reader_bench_{}.jsonl", bytes >> 20)).string();
    if (std::filesystem::exists(file) && std::filesystem::file_size(file) >= bytes) return file;
    std::ofstream out(file, std::ios::binary);
    for (size_t written = 0, i = 0; written < bytes; ++i) {
      auto answer = std::string(200 + i * 37 % 1200, 'a');
      auto row = fmt::format(
          "{{\"messages\": [{{\"role\": \"user\", \"content\": \"question {}\"}}, {{\"role\": \"assistant\", \"content\": "
          "\"{}\\n\"}}]}}\n",
          i, answer);
      out << row;
      written += row.size();
    }
    return file;
  }();
  return path;
}

double resident_mb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

DatasetConfig config(bool shuffle, bool streaming) {
  DatasetConfig config;
  config.datasets = {bench_file()};
  config.shuffle = shuffle;
  config.streaming = streaming;
  return config;
}

void open_and_first_row(benchmark::State& state) {
  bench_file();
  for (auto _ : state) benchmark::DoNotOptimize(open_datasets(config(true, false)).train->at(0).ok());
  state.counters["file_mb"] = static_cast<double>(std::filesystem::file_size(bench_file())) / 1048576;
  state.counters["peak_rss_mb"] = resident_mb();
}
BENCHMARK(open_and_first_row)->Unit(benchmark::kMillisecond);

void read_rows(benchmark::State& state, bool shuffle) {
  auto data = open_datasets(config(shuffle, false));
  auto threads = std::thread::hardware_concurrency();
  for (auto _ : state) {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        int64_t begin = data.train->size() * t / threads, end = data.train->size() * (t + 1) / threads;
        for (int64_t i = begin; i < end; ++i) benchmark::DoNotOptimize(data.train->at(i).ok());
      });
  }
  state.SetItemsProcessed(state.iterations() * data.train->size());
  state.counters["peak_rss_mb"] = resident_mb();
}
BENCHMARK_CAPTURE(read_rows, in_order, false)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_rows, shuffled, true)->UseRealTime()->Unit(benchmark::kMillisecond);

void stream_rows(benchmark::State& state) {
  int64_t rows = 0;
  for (auto _ : state) {
    auto stream = open_datasets(config(true, true)).train_stream;
    while (auto row = stream->next()) rows += row->ok();
  }
  state.SetItemsProcessed(rows);
  state.counters["peak_rss_mb"] = resident_mb();
}
BENCHMARK(stream_rows)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
