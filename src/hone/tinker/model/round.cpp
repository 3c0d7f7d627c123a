// A round: one request of each of several runs. Their forward and forward_backward requests share passes.
#include <algorithm>
#include <chrono>
#include <utility>

#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/base/out_of_space.h"
#include "hone/tinker/model/forward_batch.h"
#include "hone/tinker/model/model_loop.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLongestWait{50};  // of a request that is done for the others of its round
constexpr int64_t kMostReplayed = int64_t{1} << 30;    // bytes of gradients' data without a step, which no snapshot replaces
constexpr const char* kServersFault = "internal error; see the server's log";
constexpr const char* kFullDisk =
    "the server's disk is full: nothing was saved; delete checkpoints that you do not need, or try again when there is room";

// These compute little; others read or write files.
bool is_short(const std::string& kind) { return kind == "optim_step" || kind == "grad_norm" || kind == "zero_grad"; }
bool is_forward(const std::string& kind) { return kind == "forward_backward" || kind == "forward"; }

Outcome forward_outcome(const ForwardTask& task) {
  if (task.failed()) return failure(task.error(), task.is_users_fault());
  auto metrics = task.experts().metrics();
  metrics["loss:sum"] = task.loss_sum();
  metrics.merge(task.pairs().means(":mean"));
  metrics.insert(task.similarities().begin(), task.similarities().end());
  return {.failed = false, .body = write_forward_backward_output(task.logprobs(), metrics), .content_type = kProtobuf};
}

}  // namespace

struct ModelLoop::Forward {
  QueuedRequest queued;
  StoredRequest request;
  ForwardTask task;
  int64_t kept_bytes;  // of its data, if restoring the run will need them
};

// Requests that are done together are written down in one commit.
void ModelLoop::execute(const std::vector<QueuedRequest>& requests) {
  if (requests.empty()) return;
  std::vector<RequestName> names;
  for (const auto& queued : requests) names.push_back(name_of(queued));
  journal_.begin(names);
  std::list<Forward> forwards;
  std::vector<Computed> computed;
  auto written = Steady::now();
  for (const auto& queued : requests) {
    if (is_stopping()) break;
    try {
      start(queued, forwards, computed);
    } catch (const std::exception& problem) {
      retry({queued}, problem.what());
    }
    if (Steady::now() - written < kLongestWait) continue;
    finish(std::exchange(computed, {}));
    written = Steady::now();
  }
  finish(std::move(computed));
  compute(forwards);
  journal_.end();
}

// Done at once, unless it needs passes over the model. Results so far do not wait for a request that may take long.
void ModelLoop::start(const QueuedRequest& queued, std::list<Forward>& forwards, std::vector<Computed>& computed) {
  auto request = store_.request(queued.run, queued.seq);
  if (!request || request->done) return;
  if (journal_.crashes(name_of(queued)) >= RoundJournal::kMaxCrashes) {
    auto outcome = failure(fmt::format("the server ended {} times while it computed this request, which is not tried again",
                                       RoundJournal::kMaxCrashes),
                           false);
    after_failure(queued, request->kind);
    computed.push_back(computed_request(queued, *request, std::move(outcome), 0));
    return;
  }
  const bool is_resident = residents_.contains(queued.run);
  if (!is_resident || !(is_short(request->kind) || is_forward(request->kind))) finish(std::exchange(computed, {}));
  auto began = Steady::now();
  bool joins = false;
  auto outcome = outcome_of(queued, request->kind, [&]() -> Outcome {
    if (!is_resident && !fits_with_busy_runs(queued.run)) compute(forwards);
    auto& resident = this->resident(queued.run);
    began = Steady::now();  // restoring a run is not part of its request
    if (!is_forward(request->kind)) return perform(resident, *request);
    const auto kept_bytes = request->kind == "forward_backward" ? static_cast<int64_t>(request->body.size()) : 0;
    if (kept_bytes > 0 && resident.bytes + kept_bytes > kMostReplayed)
      throw RequestError(fmt::format(
          "{} bytes of data since the last snapshot, and {} of this request; at most {} are kept; call optim_step more "
          "often, or send less data at once",
          resident.bytes, kept_bytes, kMostReplayed));
    auto data = read_forward_backward(std::exchange(request->body, {}));
    data.seq_id = queued.seq;  // this server numbers the requests of Twinkle's client
    ForwardTask task(model_, *resident.run, std::move(data), config_.max_length);
    forwards.push_back({queued, *request, std::move(task), kept_bytes});
    busy_.insert(queued.run);
    joins = true;
    return {};
  });
  const double seconds = seconds_since(began);
  if (request->kind == "optim_step") add_seconds(&Stats::optim_seconds, seconds);
  if (!joins) computed.push_back(computed_request(queued, *request, std::move(outcome), seconds));
}

// A run is answered as soon as its own data are done; sampling gets its share between passes.
void ModelLoop::compute(std::list<Forward>& forwards) {
  ForwardBatch batch(model_, config_.batch_tokens);
  for (auto& each : forwards) batch.add(each.task);
  if (!forwards.empty()) fault("tinker.pass");
  for (bool more = true; more && !is_stopping();) {
    const auto began = Steady::now();
    try {
      more = batch.step();
      note_pass(batch, seconds_since(began));
    } catch (const std::exception& problem) {
      log::error("a pass over the data of {} runs: {}", batch.in_pass().size(), problem.what());
      for (auto* task : batch.in_pass()) task->fail(kServersFault, false);
    }
    std::vector<Computed> computed;
    for (auto& [queued, request, task, kept_bytes] : forwards) {
      if (request.done || !task.done()) continue;
      request.done = true;
      if (task.failed())
        after_failure(queued, request.kind);
      else if (auto found = residents_.find(queued.run); found != residents_.end())
        found->second.bytes += kept_bytes;
      computed.push_back(computed_request(queued, request, forward_outcome(task), task.seconds()));
    }
    finish(std::move(computed));
    if (more) sample_for_a_while(true);
  }
  forwards.clear();
  busy_.clear();
}

void ModelLoop::note_pass(const ForwardBatch& batch, double seconds) {
  if (batch.in_pass().empty()) return;
  std::lock_guard lock(mutex_);
  ++stats_.passes;
  stats_.runs_in_passes += static_cast<int64_t>(batch.in_pass().size());
  stats_.tokens += batch.tokens_in_pass();
  stats_.seconds += seconds;
}

void ModelLoop::add_seconds(double Stats::*total, double seconds) {
  std::lock_guard lock(mutex_);
  stats_.*total += seconds;
}

Outcome ModelLoop::outcome_of(const QueuedRequest& queued, const std::string& kind, const std::function<Outcome()>& work) try {
  return work();
} catch (const RequestError& problem) {
  after_failure(queued, kind);
  return failure(problem.what(), true);
} catch (const std::exception& problem) {
  log::error("{} of {}: {}", kind, queued.run, problem.what());
  after_failure(queued, kind);
  return failure(is_out_of_space(problem) ? kFullDisk : kServersFault, false);
}

// Gradients accumulated in a window with a failed request must not be applied; a failed step has consumed the window.
void ModelLoop::after_failure(const QueuedRequest& queued, const std::string& kind) {
  if (queued.seq == 0) store_.set_unloaded(queued.run);  // created by loading weights, which it does not have
  auto found = residents_.find(queued.run);
  if (found == residents_.end()) return;
  if (kind == "forward_backward") found->second.run->invalidate_gradients();
  if (kind == "optim_step") found->second.run->clear_gradients();
  if (kind == "load_weights") residents_.erase(found);  // weights may be partly loaded; the run is restored
}

ModelLoop::Computed ModelLoop::computed_request(const QueuedRequest& queued, StoredRequest request, Outcome outcome,
                                                double seconds) {
  request.failed = outcome.failed;
  request.result = std::move(outcome.body);
  request.content_type = outcome.content_type;
  return {queued, std::move(request), seconds};
}

// A failed request is finished too: the later requests of its run do not wait for it.
void ModelLoop::finish(std::vector<Computed> computed) {
  if (computed.empty()) return;
  std::vector<QueuedRequest> requests;
  std::vector<std::pair<std::string, StoredRequest>> rows;
  for (auto& each : computed) {
    requests.push_back(each.queued);
    rows.emplace_back(each.queued.run, std::move(each.request));
  }
  const auto began = Steady::now();
  try {
    store_.finish_requests(rows);
    add_seconds(&Stats::commit_seconds, seconds_since(began));
  } catch (const std::exception& problem) {
    retry(requests, problem.what());
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) after_commit(requests[i], rows[i].second, computed[i].seconds);
}

void ModelLoop::after_commit(const QueuedRequest& queued, const StoredRequest& request, double seconds) {
  {
    std::lock_guard lock(mutex_);
    if (const auto queue = queues_.find(queued.run); queue != queues_.end()) queue->second.executed = queued.seq;
    ++(request.failed ? stats_.requests_failed : stats_.requests_done);
    if (request.kind == "optim_step" && !request.failed) ++stats_.optim_steps;
    stats_.resident_runs = residents_.size();
  }
  journal_.forget(name_of(queued));
  on_done_(future_id(queued.run, queued.seq));
  auto found = residents_.find(queued.run);
  if (found == residents_.end()) return;
  found->second.row.executed = queued.seq;
  found->second.seconds += seconds;
  const bool is_long = found->second.seconds > config_.replay_seconds || found->second.bytes > config_.replay_bytes;
  if (request.kind == "optim_step" && is_long) take_snapshot(found->second, queued.seq);
}

}  // namespace hone::tinker
