#include "hone/tinker/model/model_loop.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/memory.h"

namespace hone::tinker {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSamplingShare{50};  // while training waits
constexpr std::chrono::milliseconds kLongestHold{20};    // a few commits to disk
constexpr std::chrono::seconds kBeforeRetry{2};

// The memory that weights and KV cache leave is shared by runs and forward passes.
int64_t bytes_for_runs(at::Device device) {
  constexpr double kShare = 0.5;
  const auto use = device::memory_use(device);
  return static_cast<int64_t>(static_cast<double>(std::max<int64_t>(0, use.total - use.current)) * kShare);
}

}  // namespace

double seconds_since(Steady::time_point began) { return std::chrono::duration<double>(Steady::now() - began).count(); }

std::string future_id(const std::string& run, int64_t seq) { return fmt::format("{}:{}", run, seq); }

ModelLoop::ModelLoop(model::CausalLM& model, engine::Engine& engine, boost::asio::io_context& io, Store& store,
                     ModelConfig config, OnDone on_done, OnSampled on_sampled)
    : model_(model),
      store_(store),
      config_(std::move(config)),
      on_done_(std::move(on_done)),
      sampler_(model, engine, config_.end_tokens, config_.max_adapters, std::move(on_sampled)),
      engine_(engine, io, config_.engine,
              {.wake = [this] { push({}); },
               .other_outputs = [this](engine::RequestOutput output) { sampler_.take(std::move(output)); },
               .failed = [this](const std::string&) { sampler_.fail_all("the engine failed; the server's log says why"); }}),
      journal_(config_.root / "round.json"),
      resident_bytes_(config_.resident_bytes > 0 ? config_.resident_bytes : bytes_for_runs(model.device())) {
  log::info("training runs in memory: at most {}, of {} together", config_.max_adapters,
            format_bytes(static_cast<double>(resident_bytes_)));
}

void ModelLoop::start() {
  for (const auto& [run, seq] : store_.pending_requests()) submit(run, seq);
  thread_ = std::thread([this] { loop(); });
}

void ModelLoop::submit(const std::string& run, int64_t seq) {
  std::unique_lock lock(mutex_);
  if (!queues_.contains(run)) {
    lock.unlock();  // announcements of the I/O thread do not wait for the database
    const auto row = store_.run_of_any_owner(run);
    lock.lock();
    queues_.try_emplace(run, RunQueue{.owner = row ? row->owner : "", .executed = row ? row->executed : 0});
  }
  queues_[run].waiting.insert(seq);
  ready_.notify_one();
}

ModelLoop::Announcement::Announcement(ModelLoop& loop) : loop_(loop) {
  std::lock_guard lock(loop_.mutex_);
  loop_.announced_[this] = "";
}

void ModelLoop::Announcement::name_run(const std::string& run) {
  std::lock_guard lock(loop_.mutex_);
  loop_.announced_[this] = run;
  if (loop_.holds_) loop_.ready_.notify_one();
}

ModelLoop::Announcement::~Announcement() {
  std::lock_guard lock(loop_.mutex_);
  loop_.announced_.erase(this);
  if (loop_.holds_) loop_.ready_.notify_one();
}

// Without a timeout the thread only checks for work.
void ModelLoop::push(std::function<void()> command) {
  std::lock_guard lock(mutex_);
  if (command) commands_.push_back(std::move(command));
  ready_.notify_one();
}

void ModelLoop::sample(SampleJob job) {
  push([this, job = std::move(job)]() mutable { sampler_.add(std::move(job)); });
}

void ModelLoop::cancel_sample(const std::string& id) {
  push([this, id] { sampler_.cancel(id); });
}

void ModelLoop::unload(const std::string& run) {
  push([this, run] {
    residents_.erase(run);
    forget_queue(run);
    try {
      remove_saved(store_.drop_snapshot(run));
    } catch (const std::exception& problem) {  // a full disk, for example; the next start removes what is left
      log::warning("the snapshot of {} could not be removed: {}", run, problem.what());
    }
  });
}

// For a run that gets no more requests.
void ModelLoop::forget_queue(const std::string& run) {
  std::lock_guard lock(mutex_);
  if (const auto queue = queues_.find(run); queue != queues_.end() && queue->second.waiting.empty()) queues_.erase(queue);
}

boost::asio::awaitable<std::shared_ptr<void>> ModelLoop::hold_adapter(std::string folder) {
  co_await engine_.call([&](engine::Engine&) { sampler_.hold_adapter(folder); });
  co_return std::shared_ptr<void>(nullptr, [this, folder](void*) { push([this, folder] { sampler_.release_adapter(folder); }); });
}

void ModelLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ready_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

bool ModelLoop::is_stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

ModelLoop::Stats ModelLoop::stats() {
  std::lock_guard lock(mutex_);
  auto stats = stats_;
  for (const auto& [run, queue] : queues_) {
    stats.waiting_requests += queue.waiting.size();
    stats.waiting_runs += queue.waiting.empty() ? 0 : 1;
  }
  return stats;
}

bool ModelLoop::has_ready_requests() {
  return std::ranges::any_of(queues_, [](const auto& each) { return each.second.has_ready_request(); });
}

ModelLoop::QueuedRequest ModelLoop::pop_request(const std::string& run) {
  auto& queue = queues_[run];
  QueuedRequest queued{run, *queue.waiting.begin(), queue.owner};
  queue.waiting.erase(queued.seq);
  queue.last_selected = ++selections_;
  return queued;
}

// Selects one request of each run that has one. One during which the server ended comes first, alone. If there are more runs than
// slots, those that waited longest go first, and a tenant's second run comes after every tenant's first. Among the selected ones,
// priority decides the order.
std::vector<ModelLoop::QueuedRequest> ModelLoop::next_requests() {
  std::vector<std::pair<uint64_t, const std::string*>> ready;
  for (const auto& [run, queue] : queues_) {
    if (!queue.has_ready_request()) continue;
    if (journal_.crashes({run, *queue.waiting.begin()}) > 0) return {pop_request(run)};
    ready.emplace_back(queue.last_selected, &run);
  }
  std::ranges::stable_sort(ready, {}, &std::pair<uint64_t, const std::string*>::first);
  std::map<std::string, size_t> runs_of;
  std::vector<std::pair<size_t, QueuedRequest>> requests;
  for (const auto& [last, run] : ready) {
    const auto& queue = queues_[*run];
    requests.push_back({runs_of[queue.owner]++, {*run, *queue.waiting.begin(), queue.owner}});
  }
  std::ranges::stable_sort(requests, {}, [](const auto& each) { return each.first; });
  requests.resize(std::min(requests.size(), config_.max_adapters));
  std::ranges::stable_sort(requests, std::ranges::greater(),
                           [&](const auto& each) { return config_.tenants.of(each.second.owner).priority; });
  std::vector<QueuedRequest> chosen;
  for (const auto& [index, queued] : requests) chosen.push_back(pop_request(queued.run));
  return chosen;
}

// Requests that arrive together are on the disk a commit apart. Those of a run that has a ready request are not waited for,
// except while their run is not known yet: until they are parsed.
void ModelLoop::wait_for_announced(std::unique_lock<std::mutex>& lock) {
  auto all_arrived = [&] {
    return std::ranges::all_of(announced_, [&](const auto& each) {
      const auto queue = queues_.find(each.second);
      return queue != queues_.end() && queue->second.has_ready_request();
    });
  };
  if (all_arrived()) return;
  const auto began = Steady::now();
  holds_ = true;
  ready_.wait_until(lock, began + kLongestHold,
                    [&] { return stopping_ || !commands_.empty() || engine_.has_work() || all_arrived(); });
  holds_ = false;
  stats_.hold_seconds += seconds_since(began);
}

void ModelLoop::loop() {
  while (true) {
    std::deque<std::function<void()>> commands;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return stopping_ || !commands_.empty() || has_ready_requests() || engine_.has_work(); });
      if (has_ready_requests()) wait_for_announced(lock);
      if (stopping_) return;
      commands.swap(commands_);
    }
    for (auto& command : commands) command();
    std::vector<QueuedRequest> requests;
    {
      std::lock_guard lock(mutex_);
      requests = next_requests();
    }
    execute(requests);
    sample_for_a_while(false);
  }
}

// The results could not be stored, for example on a full disk: drops the requests' effects in memory and repeats them.
void ModelLoop::retry(const std::vector<QueuedRequest>& requests, const std::string& why) {
  for (const auto& queued : requests) {
    log::error("request {} of {} is repeated: {}", queued.seq, queued.run, why);
    residents_.erase(queued.run);
  }
  std::unique_lock lock(mutex_);
  for (const auto& queued : requests) queues_[queued.run].waiting.insert(queued.seq);
  ready_.wait_for(lock, kBeforeRetry, [&] { return stopping_; });
}

void ModelLoop::sample_for_a_while(bool training_waits) {
  const auto began = Steady::now();
  while (engine_.has_work()) {
    engine_.run_once();
    std::lock_guard lock(mutex_);
    if (stopping_ || !commands_.empty() || ((training_waits || has_ready_requests()) && Steady::now() - began > kSamplingShare))
      return;
  }
}

}  // namespace hone::tinker
