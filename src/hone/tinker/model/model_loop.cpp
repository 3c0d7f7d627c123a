#include "hone/tinker/model/model_loop.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/memory.h"
#include "hone/tinker/model/forward_batch.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSamplingShare{50};  // while training waits
constexpr std::chrono::milliseconds kLongestHold{20};    // a few commits to disk
constexpr std::chrono::seconds kBeforeRetry{2};

// What weights and KV cache leave is for runs and for passes.
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
  if (!lines_.contains(run)) {
    lock.unlock();  // announcements of the I/O thread do not wait for the database
    const auto row = store_.run_of_any_owner(run);
    lock.lock();
    lines_.try_emplace(run, Line{.owner = row ? row->owner : "", .executed = row ? row->executed : 0});
  }
  lines_[run].waiting.insert(seq);
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
    remove_saved(store_.drop_snapshot(run));
  });
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
  for (const auto& [run, line] : lines_) {
    stats.waiting_requests += line.waiting.size();
    stats.waiting_runs += line.waiting.empty() ? 0 : 1;
  }
  return stats;
}

bool ModelLoop::has_turn() {
  return std::ranges::any_of(lines_, [](const auto& each) { return each.second.has_turn(); });
}

ModelLoop::Turn ModelLoop::taken(const std::string& run) {
  auto& line = lines_[run];
  Turn turn{run, *line.waiting.begin(), line.owner};
  line.waiting.erase(turn.seq);
  line.last_turn = ++turns_;
  return turn;
}

// Selects one request of each run that has one. One during which the server ended comes first, alone. If there are more runs than
// slots, those that waited longest go first, and a tenant's second run comes after every tenant's first. Among the selected ones,
// priority decides the order.
std::vector<ModelLoop::Turn> ModelLoop::next_turns() {
  std::vector<std::pair<uint64_t, const std::string*>> ready;
  for (const auto& [run, line] : lines_) {
    if (!line.has_turn()) continue;
    if (journal_.crashes({run, *line.waiting.begin()}) > 0) return {taken(run)};
    ready.emplace_back(line.last_turn, &run);
  }
  std::ranges::stable_sort(ready, {}, &std::pair<uint64_t, const std::string*>::first);
  std::map<std::string, size_t> runs_of;
  std::vector<std::pair<size_t, Turn>> turns;
  for (const auto& [last, run] : ready) {
    const auto& line = lines_[*run];
    turns.push_back({runs_of[line.owner]++, {*run, *line.waiting.begin(), line.owner}});
  }
  std::ranges::stable_sort(turns, {}, [](const auto& each) { return each.first; });
  turns.resize(std::min(turns.size(), config_.max_adapters));
  std::ranges::stable_sort(turns, std::ranges::greater(),
                           [&](const auto& each) { return config_.tenants.of(each.second.owner).priority; });
  std::vector<Turn> chosen;
  for (const auto& [place, turn] : turns) chosen.push_back(taken(turn.run));
  return chosen;
}

// Requests that arrive together are on the disk a commit apart. Those of a run that has a turn are not waited for, except while
// their run is not known yet: until they are parsed.
void ModelLoop::wait_for_announced(std::unique_lock<std::mutex>& lock) {
  auto have_come = [&] {
    return std::ranges::all_of(announced_, [&](const auto& each) {
      const auto line = lines_.find(each.second);
      return line != lines_.end() && line->second.has_turn();
    });
  };
  if (have_come()) return;
  const auto began = Steady::now();
  holds_ = true;
  ready_.wait_until(lock, began + kLongestHold,
                    [&] { return stopping_ || !commands_.empty() || engine_.has_turn() || have_come(); });
  holds_ = false;
  stats_.hold_seconds += seconds_since(began);
}

void ModelLoop::loop() {
  while (true) {
    std::deque<std::function<void()>> commands;
    std::vector<Turn> turns;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return stopping_ || !commands_.empty() || has_turn() || engine_.has_turn(); });
      if (has_turn()) wait_for_announced(lock);
      if (stopping_) return;
      commands.swap(commands_);
      turns = next_turns();
    }
    for (auto& command : commands) command();
    execute(turns);
    sample_for_a_while(false);
  }
}

// The requests' end could not be written down, on a full disk say: what they did in memory is forgotten, and they are done again.
void ModelLoop::retry(const std::vector<Turn>& turns, const std::string& why) {
  for (const auto& turn : turns) {
    log::error("request {} of {} is done again: {}", turn.seq, turn.run, why);
    residents_.erase(turn.run);
  }
  std::unique_lock lock(mutex_);
  for (const auto& turn : turns) lines_[turn.run].waiting.insert(turn.seq);
  ready_.wait_for(lock, kBeforeRetry, [&] { return stopping_; });
}

void ModelLoop::sample_for_a_while(bool training_waits) {
  const auto began = Steady::now();
  while (engine_.has_turn()) {
    engine_.take_turn();
    std::lock_guard lock(mutex_);
    if (stopping_ || !commands_.empty() || ((training_waits || has_turn()) && Steady::now() - began > kSamplingShare)) return;
  }
}

void ModelLoop::take_snapshot(Resident& resident, int64_t seq) try {
  if (resident.run->has_gradients() || resident.row.snapshot_seq == seq) return;
  const auto folder = write_files(resident, seq, "runs", true, [&](const std::filesystem::path& written) {
    store_.set_snapshot(resident.row.id, seq, written.string(), saved_bytes(written));
  });
  remove_saved(resident.row.snapshot);
  resident.row.snapshot = folder.string();
  resident.row.snapshot_seq = seq;
  resident.seconds = 0;
  resident.bytes = 0;
} catch (const std::exception& problem) {
  log::error("{}: no snapshot was taken, and the requests after the last one are kept: {}", resident.row.id, problem.what());
}

// For a run that takes this many bytes, evicts the least recently used ones from memory: their snapshot and the requests after it
// restore them.
void ModelLoop::make_room(int64_t bytes) {
  for (const auto& [name, resident] : residents_) bytes += resident.run->bytes();
  while (residents_.size() > busy_.size() && (residents_.size() >= config_.max_adapters || bytes > resident_bytes_)) {
    auto oldest = std::ranges::min_element(
        residents_, {}, [&](const auto& each) { return std::pair(busy_.contains(each.first), each.second.used); });
    bytes -= oldest->second.run->bytes();
    take_snapshot(oldest->second, oldest->second.row.executed);
    residents_.erase(oldest);
  }
}

// Whether the run can be in memory together with those that this round still computes.
bool ModelLoop::fits_beside_busy_runs(const std::string& run) {
  if (busy_.empty()) return true;
  const auto row = store_.run_of_any_owner(run);
  int64_t bytes = row ? TrainingRun::bytes_of(model_, row->config) : 0;
  for (const auto& name : busy_)
    if (const auto found = residents_.find(name); found != residents_.end()) bytes += found->second.run->bytes();
  return bytes <= resident_bytes_;
}

ModelLoop::Resident& ModelLoop::resident(const std::string& run) {
  auto found = residents_.find(run);
  if (found == residents_.end()) {
    auto row = store_.run_of_any_owner(run);
    if (!row || row->unloaded) throw RequestError("this model was unloaded");
    const auto bytes = TrainingRun::bytes_of(model_, row->config);
    if (bytes > resident_bytes_)
      throw RequestError(fmt::format(
          "this model's adapter of rank {} takes {} with gradients and optimizer state; this server has {} for all "
          "of them: lower the rank, or leave out train_mlp, train_attn or train_unembed",
          row->config.rank, format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(resident_bytes_))));
    make_room(bytes);
    Resident made{std::make_unique<TrainingRun>(model_, run, row->config, config_.base_model), *row};
    rebuild(made);
    found = residents_.emplace(run, std::move(made)).first;
  }
  found->second.used = ++clock_;
  return found->second;
}

void ModelLoop::forward_again(Resident& resident, const StoredRequest& request) {
  auto data = read_forward_backward(request.body);
  data.seq_id = request.seq;
  ForwardTask task(model_, *resident.run, std::move(data), config_.max_length, true);
  ForwardBatch batch(model_, config_.batch_tokens);
  batch.add(task);
  while (batch.step()) {
  }
  if (task.failed()) throw RequestError(task.error());
}

// The same requests in the same order give the same weights and gradients.
void ModelLoop::rebuild(Resident& resident) {
  try {
    if (!resident.row.snapshot.empty()) resident.run->load(resident.row.snapshot, true);
  } catch (const RequestError& problem) {
    throw RequestError(
        fmt::format("this model cannot be restored from its snapshot: {}; create one from a checkpoint", problem.what()));
  }
  auto requests = store_.requests_behind(resident.row.id, resident.row.snapshot_seq);
  const auto began = Steady::now();
  for (const auto& request : requests) {
    const bool forward = request.kind == "forward_backward", step = request.kind == "optim_step";
    if (request.failed && forward) resident.run->spoil_gradients();
    if (request.failed && step) resident.run->clear_gradients();
    if (!request.failed && (step || request.kind == "load_weights")) perform(resident, request);
    if (request.kind == "zero_grad") resident.run->clear_gradients();
    if (!request.failed && forward) forward_again(resident, request);
    resident.bytes += static_cast<int64_t>(request.body.size());
  }
  resident.seconds = seconds_since(began);
  if (!requests.empty()) log::info("{}: {} requests after its snapshot were repeated", resident.row.id, requests.size());
}

}  // namespace hone::tinker
