// The engine's thread, or the part of another thread that steps it. Sessions submit requests and read outputs; nothing else
// touches the engine while it runs.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "hone/engine/engine.h"
#include "hone/serve/generation.h"

namespace hone::serve {

struct EngineLoopLimits {
  size_t live_sequences = 1280;    // generated or waiting for it
  size_t live_tokens = 16u << 20;  // their prompts and the longest completions they may get, together
  size_t unread_bytes = 1u << 20;  // of one request, until its client is disconnected
  int failures_in_a_row = 3;       // steps that throw, until the engine counts as broken
};

// Steps the engine if it has no thread of its own. wake() is called from any thread; the others from run_once().
struct EngineDriver {
  std::function<void()> wake;                                // there is work to do
  std::function<void(engine::RequestOutput)> other_outputs;  // of requests that the driver gave to the engine itself
  std::function<void(const std::string& why)> failed;        // a step threw: what runs is lost
};

class EngineLoop {
 public:
  EngineLoop(engine::Engine& engine, asio::io_context& io, const EngineLoopLimits& limits);
  EngineLoop(engine::Engine& engine, asio::io_context& io, const EngineLoopLimits& limits, EngineDriver driver);
  ~EngineLoop();
  // Ends the thread after the current step; running requests are not reported. request_stop() does not wait.
  void stop();
  void request_stop();
  // For the driver's thread: requests since the last call, then one engine step.
  bool has_work();
  void run_once();
  bool stopped() const { return stopped_; }

  const EngineLoopLimits& limits() const { return limits_; }
  // The load of requests, which counts against the limits above.
  struct Load {
    size_t sequences = 0, tokens = 0;
  };
  static Load load_of(const std::vector<engine::Request>& requests);
  bool has_room(size_t sequences) const { return live_sequences_ + sequences <= limits_.live_sequences; }
  // Null if there is no room: the caller responds with 429. I/O thread only.
  std::shared_ptr<Generation> submit(std::vector<engine::Request> requests);

  void interrupt_all();  // interrupts every session; I/O thread only

  // Reports values computed between steps: NaN counts as a failed request, and is thrown.
  void require_numbers(std::span<const float> values);
  // Runs `work` on the engine's thread, between two steps. Rethrows its exceptions.
  asio::awaitable<void> call(std::function<void(engine::Engine&)> work);

  engine::Stats stats() const;
  size_t live_sequences() const { return live_sequences_; }
  size_t live_tokens() const { return live_tokens_; }
  // Duration so far of the current step, or of a call between steps; 0 if there is none.
  std::chrono::milliseconds in_step() const;
  bool broken() const { return broken_; }
  bool requests_fail() const {
    return failed_requests_ >= limits_.failures_in_a_row;
  }  // the last ones all did, by the model's fault

 private:
  friend class Generation;
  struct Live {
    std::weak_ptr<Generation> generation;
    uint64_t ticket = 0;
    size_t choice = 0;     // of its first sequence
    size_t sequences = 1;  // more than one of a beam search, all reported in one step
    size_t tokens = 0;
  };
  struct Delivery {
    std::weak_ptr<Generation> generation;
    Event event;
  };

  void run();
  using Commands = std::deque<std::function<void()>>;
  void enqueue(std::function<void()> command) { push(commands_, std::move(command)); }
  void push(Commands& queue, std::function<void()> command);
  void wake();
  bool wait_for_work();  // false: time to stop
  bool has_commands() const { return !commands_.empty() || !calls_.empty(); }
  void run_commands();
  void tell(engine::RequestOutput output, std::vector<Delivery>& deliveries);
  void add(std::weak_ptr<Generation> generation, uint64_t ticket, std::vector<engine::Request> requests);
  void cancel(uint64_t ticket);
  void step();
  void note(const engine::Stats& stats);
  void note_health(const engine::RequestOutput& output);
  void fail_all_requests(const std::string& why);
  void report(const Live& live, engine::RequestOutput output, bool refused, std::vector<Delivery>& deliveries);
  void report_failure(const Live& live, const std::string& why, bool refused, std::vector<Delivery>& deliveries);
  void deliver(std::vector<Delivery> deliveries);

  engine::Engine& engine_;
  asio::io_context& io_;
  const EngineLoopLimits limits_;
  const EngineDriver driver_;  // empty where the thread is this one's own
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Generation*> sessions_;  // I/O thread only

  std::mutex mutex_;
  std::condition_variable ready_;
  Commands commands_, calls_;  // calls take long: one between two steps
  bool stopping_ = false;

  std::map<engine::RequestId, Live> live_;                      // engine thread only
  std::map<uint64_t, std::vector<engine::RequestId>> tickets_;  // engine thread only
  int failures_ = 0;                                            // in a row: since a step last computed something

  mutable std::mutex stats_mutex_;
  engine::Stats stats_;
  std::atomic<size_t> live_sequences_{0}, live_tokens_{0};
  std::atomic<int64_t> step_began_{0};  // steady clock, nanoseconds
  std::atomic<bool> broken_{false}, stopped_{false};
  std::atomic<int> failed_requests_{0};  // in a row
  std::thread thread_;
};

}  // namespace hone::serve
