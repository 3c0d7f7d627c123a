#include "hone/serve/engine_loop.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cmath>

#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

size_t tokens_of(const engine::Request& request) {
  auto beams = static_cast<size_t>(request.sampling.num_beams);
  return (request.prompt.size() + static_cast<size_t>(std::max<int64_t>(request.sampling.max_tokens, 0))) * beams;
}

size_t completions_of(const engine::Request& request) { return static_cast<size_t>(request.sampling.num_return_sequences); }

// For the watchdog: the start time of the engine thread's current operation.
class AtWork {
 public:
  explicit AtWork(std::atomic<int64_t>& began) : began_(began) { began_ = Clock::now().time_since_epoch().count(); }
  ~AtWork() { began_ = 0; }
  AtWork(const AtWork&) = delete;

 private:
  std::atomic<int64_t>& began_;
};

}  // namespace

EngineLoop::EngineLoop(engine::Engine& engine, asio::io_context& io, const EngineLoopLimits& limits)
    : engine_(engine), io_(io), limits_(limits), stats_(engine.stats()), thread_([this] { run(); }) {}

EngineLoop::EngineLoop(engine::Engine& engine, asio::io_context& io, const EngineLoopLimits& limits, EngineDriver driver)
    : engine_(engine), io_(io), limits_(limits), driver_(std::move(driver)), stats_(engine.stats()) {}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::request_stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
}

void EngineLoop::stop() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

EngineLoop::Load EngineLoop::load_of(const std::vector<engine::Request>& requests) {
  Load load;
  for (const auto& request : requests) load.tokens += tokens_of(request), load.sequences += completions_of(request);
  return load;
}

std::shared_ptr<Generation> EngineLoop::submit(std::vector<engine::Request> requests) {
  auto [sequences, tokens] = load_of(requests);
  if (!has_room(sequences) || live_tokens_ + tokens > limits_.live_tokens) return nullptr;
  live_sequences_ += sequences;
  live_tokens_ += tokens;
  auto generation = std::make_shared<Generation>(*this, ++last_ticket_, sequences, io_.get_executor());
  enqueue([this, weak = std::weak_ptr(generation), ticket = last_ticket_, requests = std::move(requests)]() mutable {
    add(std::move(weak), ticket, std::move(requests));
  });
  return generation;
}

void EngineLoop::interrupt_all() {
  for (auto& [ticket, generation] : sessions_) generation->interrupt();
}

asio::awaitable<void> EngineLoop::call(std::function<void(engine::Engine&)> work) {
  struct State {
    explicit State(const asio::any_io_executor& executor) : done(executor) {}
    Signal done;
    std::exception_ptr failure;
  };
  auto state = std::make_shared<State>(io_.get_executor());
  push(calls_, [this, state, work = std::move(work)] {
    try {
      fault("serve.call");
      work(engine_);
    } catch (...) {
      state->failure = std::current_exception();
    }
    asio::post(io_, [state] { state->done.notify(); });
  });
  co_await state->done.wait_until(Clock::time_point::max());
  if (state->failure) std::rethrow_exception(state->failure);
}

engine::Stats EngineLoop::stats() const {
  std::lock_guard lock(stats_mutex_);
  return stats_;
}

std::chrono::milliseconds EngineLoop::in_step() const {
  int64_t began = step_began_;
  if (began == 0) return {};
  auto own =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch() - std::chrono::nanoseconds(began));
  return std::max(own, engine_.current_step_time());
}

void EngineLoop::push(Commands& queue, std::function<void()> command) {
  {
    std::lock_guard lock(mutex_);
    queue.push_back(std::move(command));
  }
  wake();
}

// Wakes from either wait: for work, or for a replica to finish its step while another could start one.
void EngineLoop::wake() {
  ready_.notify_one();
  engine_.wake_step();
  if (driver_.wake) driver_.wake();
}

void EngineLoop::run() {
  while (wait_for_work()) run_once();
  stopped_ = true;
}

bool EngineLoop::wait_for_work() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return stopping_ || has_commands() || !engine_.has_no_work(); });
  return !stopping_;
}

bool EngineLoop::has_work() {
  std::lock_guard lock(mutex_);
  return has_commands() || !engine_.has_no_work();
}

void EngineLoop::run_once() {
  run_commands();
  step();
}

// All small tasks and one call: however many calls wait, generation continues in between.
void EngineLoop::run_commands() {
  Commands commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(commands_);
    if (!calls_.empty()) {
      commands.push_back(std::move(calls_.front()));
      calls_.pop_front();
    }
  }
  for (auto& command : commands) {
    AtWork work(step_began_);
    command();
  }
}

void EngineLoop::add(std::weak_ptr<Generation> generation, uint64_t ticket, std::vector<engine::Request> requests) {
  std::vector<Delivery> deliveries;
  size_t choice = 0;
  for (auto& request : requests) {
    Live live{generation, ticket, choice, completions_of(request), tokens_of(request)};
    choice += live.sequences;
    try {
      auto id = engine_.add(std::move(request));
      live_.emplace(id, live);
      tickets_[ticket].push_back(id);
    } catch (const UserError& error) {
      report_failure(live, error.what(), true, deliveries);
    } catch (const std::exception& error) {
      log::error("the engine could not take a request: {}", error.what());
      report_failure(live, error.what(), false, deliveries);
    }
  }
  deliver(std::move(deliveries));
}

void EngineLoop::cancel(uint64_t ticket) {
  auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  for (auto id : found->second) engine_.cancel(id);  // the next step reports each of them once
}

// Updates the counts if this is the last output of a sequence or of its request.
void EngineLoop::report(const Live& live, engine::RequestOutput output, bool refused, std::vector<Delivery>& deliveries) {
  if (output.finish != engine::FinishReason::none) {
    --live_sequences_;
    if (output.index + 1 == live.sequences) live_tokens_ -= live.tokens;
  }
  auto choice = live.choice + output.index;
  deliveries.push_back({live.generation, {choice, std::move(output), refused}});
}

void EngineLoop::report_failure(const Live& live, const std::string& why, bool refused, std::vector<Delivery>& deliveries) {
  for (size_t i = 0; i < live.sequences; ++i)
    report(live, {.index = i, .finish = engine::FinishReason::error, .error = why}, refused, deliveries);
}

void EngineLoop::tell(engine::RequestOutput output, std::vector<Delivery>& deliveries) {
  auto found = live_.find(output.id);
  if (found == live_.end()) {
    if (driver_.other_outputs) driver_.other_outputs(std::move(output));
    return;
  }
  auto live = found->second;
  if (output.finish != engine::FinishReason::none && output.index + 1 == live.sequences) {
    live_.erase(found);
    auto ids = tickets_.find(live.ticket);
    std::erase(ids->second, output.id);
    if (ids->second.empty()) tickets_.erase(ids);
  }
  bool refused = output.finish == engine::FinishReason::error && !output.model_broken;
  note_health(output);
  report(live, std::move(output), refused, deliveries);
}

// Requests that fail because of the model indicate a broken model: a server whose recent requests all failed is not ready.
void EngineLoop::note_health(const engine::RequestOutput& output) {
  if (output.model_broken) {
    if (++failed_requests_ <= limits_.failures_in_a_row) log::error("a request failed: {}", output.error);
  } else if (!output.tokens.empty()) {
    failed_requests_ = 0;
  }
}

void EngineLoop::require_numbers(std::span<const float> values) {
  bool broken = std::ranges::any_of(values, [](float value) { return std::isnan(value); });
  if (!broken) return void(failed_requests_ = 0);
  note_health({.error = engine::kModelComputesNan, .model_broken = true});
  throw ApiError(500, "the model computes NaN", "", "engine_error");
}

void EngineLoop::step() {
  if (engine_.has_no_work()) return note(engine_.stats());
  std::vector<Delivery> deliveries;
  bool failed = false;
  {
    AtWork work(step_began_);
    try {
      fault("serve.step");
      for (auto& output : engine_.step()) tell(std::move(output), deliveries);
    } catch (const std::exception& error) {
      failed = true;
      fail_all_requests(error.what());
    }
  }
  auto stats = engine_.stats();
  if (!failed && stats.steps > stats_.steps) failures_ = 0;  // a step that only reports cancellations proves nothing
  note(stats);
  deliver(std::move(deliveries));
}

void EngineLoop::note(const engine::Stats& stats) {
  std::lock_guard lock(stats_mutex_);
  stats_ = stats;
}

// A step that throws leaves all requests in an unknown state: all of them end, and the engine starts empty.
void EngineLoop::fail_all_requests(const std::string& why) {
  log::error("an engine step failed; {} sequences are aborted: {}", live_.size(), why);
  std::vector<Delivery> deliveries;
  for (auto& [id, live] : live_) {
    engine_.cancel(id);
    report_failure(live, "the engine failed", false, deliveries);
  }
  live_.clear();
  tickets_.clear();
  deliver(std::move(deliveries));
  if (driver_.failed) driver_.failed(why);
  if (++failures_ >= limits_.failures_in_a_row) {
    broken_ = true;
    log::error("the engine failed {} times in a row", failures_);
  }
}

// One message to the I/O thread per step, whatever the number of outputs.
void EngineLoop::deliver(std::vector<Delivery> deliveries) {
  if (deliveries.empty()) return;
  asio::post(io_, [deliveries = std::move(deliveries)]() mutable {
    for (auto& delivery : deliveries)
      if (auto generation = delivery.generation.lock()) generation->push(std::move(delivery.event));
  });
}

}  // namespace hone::serve
