// Steps a replica on its own thread while it has work.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "hone/engine/replica.h"

namespace hone::engine {

// Notified by every replica after each step, and by other producers of outputs; one thread waits for any of them.
class StepEvent {
 public:
  void notify();
  void wait();  // returns at once if it was notified since the last wait

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  bool rang_ = false;
};

class ReplicaThread {
 public:
  ReplicaThread(Replica& replica, StepEvent& bell, int cores);
  ~ReplicaThread();  // after the present step

  void post(std::function<void(Replica&)> work);  // between two steps; at once while paused
  // Returns between two steps; the caller then owns the replica until resume().
  void pause();
  void resume();

  // Outputs of its steps since the last call. Rethrows an exception of a step, after which the replica is paused.
  std::vector<RequestOutput> collect();
  Stats stats() const;  // after the last step
  std::chrono::milliseconds in_step() const;

 private:
  void run(int cores);
  void step(std::unique_lock<std::mutex>& lock);

  Replica& replica_;
  StepEvent& bell_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void(Replica&)>> posted_;
  std::vector<RequestOutput> outputs_;
  std::exception_ptr failure_;
  Stats stats_;
  bool stepping_ = false, paused_ = false, stopping_ = false;
  std::atomic<int64_t> began_{0};  // the present step: steady clock, nanoseconds; 0 between steps
  std::thread thread_;
};

}  // namespace hone::engine
