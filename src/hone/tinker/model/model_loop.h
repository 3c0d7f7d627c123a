// The thread that owns the model: training requests in order, several runs per pass, and engine steps in between.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "hone/serve/engine_loop.h"
#include "hone/tinker/model/sampler.h"
#include "hone/tinker/model/training_run.h"
#include "hone/tinker/state/round_journal.h"
#include "hone/tinker/state/tenant_limits.h"

namespace hone::tinker {

class ForwardBatch;

struct ModelConfig {
  std::filesystem::path root;  // of the server's files
  std::string base_model;      // as clients call it
  std::vector<text::TokenId> end_tokens;
  int64_t max_length = 0;        // of a datum
  int64_t batch_tokens = 8192;   // computed at once
  size_t max_adapters = 64;      // runs in memory, and adapters of the sampler; others wait on the disk
  int64_t resident_bytes = 0;    // that runs in memory may take; 0: half of the device's free memory
  int64_t checkpoint_bytes = 0;  // that a tenant's checkpoints, unnamed sampler weights and snapshots may take; 0: no limit
  AllTenantLimits tenants = {};
  double replay_seconds = 10;                 // a run takes a snapshot when computing its requests again would take longer,
  int64_t replay_bytes = int64_t{256} << 20;  // or when they are larger
  serve::EngineLoopLimits engine = {};
};

std::string future_id(const std::string& run, int64_t seq);
double seconds_since(std::chrono::steady_clock::time_point began);

class ModelLoop {
 public:
  using OnDone = std::function<void(const std::string& future)>;  // the store has its result
  using OnSampled = std::function<void(const std::string& id, Outcome outcome)>;
  ModelLoop(model::CausalLM& model, engine::Engine& engine, boost::asio::io_context& io, Store& store, ModelConfig config,
            OnDone on_done, OnSampled on_sampled);
  ~ModelLoop() { stop(); }

  void start();  // resubmits the pending requests of an earlier process
  // Thread-safe. A request runs after all earlier ones of its run.
  void submit(const std::string& run, int64_t seq);
  // Lives until a request that is being received is submitted: the next round waits for it, so that they share passes.
  class Announcement {
   public:
    explicit Announcement(ModelLoop& loop);
    ~Announcement();
    Announcement(const Announcement&) = delete;
    void name_run(const std::string& run);  // a run with a ready request joins without it

   private:
    ModelLoop& loop_;
  };
  void sample(SampleJob job);
  void cancel_sample(const std::string& id);  // without a result
  void unload(const std::string& run);
  void stop();  // after the current request

  // Totals since the start, and current values. Thread-safe.
  struct Stats {
    size_t waiting_requests = 0, waiting_runs = 0, resident_runs = 0;
    int64_t requests_done = 0, requests_failed = 0, optim_steps = 0, passes = 0, runs_in_passes = 0, tokens = 0;
    double seconds = 0;                            // of passes
    double optim_seconds = 0, commit_seconds = 0;  // of steps, of writing results
    double hold_seconds = 0;                       // of waiting for announced requests
  };
  Stats stats();

  // For requests that use the engine directly, such as OpenAI's. I/O thread.
  serve::EngineLoop& engine() { return engine_; }
  // An adapter that stays loaded during the lifetime of the value. Throws UserError.
  boost::asio::awaitable<std::shared_ptr<void>> hold_adapter(std::string folder);

 private:
  // A training run in memory.
  struct Resident {
    std::unique_ptr<TrainingRun> run;
    Run row;
    uint64_t used = 0;
    double seconds = 0;  // of computing since the last snapshot
    int64_t bytes = 0;   // of requests since then, which are kept for restoring it
  };
  struct QueuedRequest {
    std::string run;
    int64_t seq;
    std::string owner = {};
  };
  // The queue of a run.
  struct RunQueue {
    std::string owner;
    int64_t executed = 0;  // the last request that is done
    uint64_t last_selected = 0;
    std::set<int64_t> waiting = {};

    bool has_ready_request() const { return !waiting.empty() && *waiting.begin() <= executed + 1; }
  };

  static RequestName name_of(const QueuedRequest& queued) { return {queued.run, queued.seq}; }
  void loop();
  void push(std::function<void()> command);
  void forget_queue(const std::string& run);
  bool has_ready_requests();
  bool is_stopping();
  void wait_for_announced(std::unique_lock<std::mutex>& lock);
  std::vector<QueuedRequest> next_requests();
  QueuedRequest pop_request(const std::string& run);
  void sample_for_a_while(bool training_waits);
  // round.cpp and perform.cpp: one request of each of several runs. Requests that need model passes are computed together.
  struct Forward;
  struct Computed {
    QueuedRequest queued;
    StoredRequest request;  // with its result
    double seconds;
  };
  void execute(const std::vector<QueuedRequest>& requests);
  void start(const QueuedRequest& queued, std::list<Forward>& forwards, std::vector<Computed>& computed);
  void compute(std::list<Forward>& forwards);
  void note_pass(const ForwardBatch& batch, double seconds);
  void add_seconds(double Stats::*total, double seconds);
  Outcome outcome_of(const QueuedRequest& queued, const std::string& kind, const std::function<Outcome()>& work);
  static Computed computed_request(const QueuedRequest& queued, StoredRequest request, Outcome outcome, double seconds);
  void finish(std::vector<Computed> computed);
  void after_commit(const QueuedRequest& queued, const StoredRequest& request, double seconds);
  void after_failure(const QueuedRequest& queued, const std::string& kind);
  void retry(const std::vector<QueuedRequest>& requests, const std::string& why);
  Outcome perform(Resident& resident, const StoredRequest& request);
  Outcome optim_step(Resident& resident, const StoredRequest& request, const Json& body);
  Outcome save_weights(Resident& resident, const StoredRequest& request, const Json& body);
  Outcome save_for_sampler(Resident& resident, const StoredRequest& request, const Json& body);
  Outcome load_weights(Resident& resident, const StoredRequest& request, const Json& body);
  void require_space(const Run& run);  // throws RequestError if the tenant's files have reached their limit
  std::string save_named(Resident& resident, const StoredRequest& request, const Json& body, const char* kind);
  // `record` writes the folder's name into the store; files that it does not record, for example on a full disk, are removed.
  using Record = std::function<void(const std::filesystem::path& folder)>;
  std::filesystem::path write_files(const Resident& resident, int64_t seq, const char* where, bool optimizer,
                                    const Record& record) const;
  void take_snapshot(Resident& resident, int64_t seq);
  Resident& resident(const std::string& run);
  void rebuild(Resident& resident);
  void forward_again(Resident& resident, const StoredRequest& request);
  // resident_runs.cpp
  void evict_for(int64_t bytes);
  bool fits_with_busy_runs(const std::string& run);

  model::CausalLM& model_;
  Store& store_;
  const ModelConfig config_;
  OnDone on_done_;
  Sampler sampler_;
  serve::EngineLoop engine_;  // which this thread steps
  RoundJournal journal_;
  const int64_t resident_bytes_;  // the config's, or half of the device's free memory
  std::map<std::string, Resident> residents_;
  std::set<std::string> busy_;  // residents with pending passes in this round: they stay in memory
  uint64_t clock_ = 0;

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> commands_;
  std::map<std::string, RunQueue> queues_;                // by run
  std::map<const Announcement*, std::string> announced_;  // with their runs; "": not known yet
  bool holds_ = false;                                    // the next round, for announced requests
  uint64_t selections_ = 0;
  Stats stats_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace hone::tinker
