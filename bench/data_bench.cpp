// Rows a second from a file to token ids and labels, all cores, and the time to the first batch.  data_bench MODEL_DIR FILE
// [TEMPLATE [DIALECT [THREADS]]]  With more threads than cores: what all of them together and the busiest of them computed, which
// is how long it would take where each had a core.
#include <fmt/format.h>

#include <time.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "hone/base/thread_pool.h"
#include "hone/data/batches/make_loader.h"
#include "hone/data/datasets/open_datasets.h"

namespace {

using namespace hone;
using namespace hone::data;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Processor seconds of each thread, by the jobs it took.
class Shares {
 public:
  void add(double seconds) {
    std::lock_guard lock(mutex_);
    by_thread_[std::this_thread::get_id()] += seconds;
  }
  double total() const {
    double sum = 0;
    for (const auto& [thread, seconds] : by_thread_) sum += seconds;
    return sum;
  }
  double longest() const {
    double most = 0;
    for (const auto& [thread, seconds] : by_thread_) most = std::max(most, seconds);
    return most;
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, double> by_thread_;
};

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Encodes every row once; the count of tokens keeps the work from being dropped.
int64_t encode_all(const ConversationSource& source, const Encoder& encoder, ThreadPool& pool, Shares& shares) {
  std::vector<std::future<int64_t>> jobs;
  constexpr int64_t kChunk = 64;
  for (int64_t begin = 0; begin < source.size(); begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      const double before = thread_seconds();
      int64_t tokens = 0;
      for (int64_t row = begin; row < std::min(begin + kChunk, source.size()); ++row)
        if (auto conversation = source.at(row))
          if (auto sample = encoder.encode(*conversation)) tokens += static_cast<int64_t>(sample->ids.size());
      shares.add(thread_seconds() - before);
      return tokens;
    }));
  int64_t tokens = 0;
  for (auto& job : jobs) tokens += job.get();
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: data_bench MODEL_DIR FILE [TEMPLATE [swift|factory [THREADS]]]\n");
    return 2;
  }
  auto start = std::chrono::steady_clock::now();
  auto dialect = argc > 4 && std::string(argv[4]) == "factory" ? Dialect::factory : Dialect::swift;
  auto config = dialect_defaults(dialect);
  config.template_name = argc > 3 ? argv[3] : "";
  auto encoder = Encoder::make(config, text::Tokenizer::load(argv[1]), read_model_identity(argv[1]));
  DatasetConfig dataset{.datasets = {argv[2]}, .shuffle = false};
  std::shared_ptr<const ConversationSource> source = open_datasets(dataset).train;
  auto loader = make_loader(source, encoder, {.batch_size = 1}, std::make_shared<RowReport>());
  loader->next();
  double first_batch = seconds_since(start);

  ThreadPool pool(argc > 5 ? std::stoul(argv[5]) : std::max(1u, std::thread::hardware_concurrency()));
  Shares shares;
  start = std::chrono::steady_clock::now();
  auto tokens = encode_all(*source, *encoder, pool, shares);
  double elapsed = seconds_since(start);
  fmt::print(
      "{{\"rows\": {}, \"tokens\": {}, \"seconds\": {:.4f}, \"rows_per_second\": {:.0f}, \"first_batch_seconds\": {:.3f}, "
      "\"threads\": {}, \"processor_seconds\": {:.4f}, \"longest_thread_seconds\": {:.4f}}}\n",
      source->size(), tokens, elapsed, static_cast<double>(source->size()) / elapsed, first_batch, pool.size(), shares.total(),
      shares.longest());
  return 0;
}
