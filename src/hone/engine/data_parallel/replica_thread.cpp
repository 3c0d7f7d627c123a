#include "hone/engine/data_parallel/replica_thread.h"

#include <iterator>

#include "hone/device/device.h"
#include "hone/device/num_threads.h"

namespace hone::engine {

using SteadyClock = std::chrono::steady_clock;

void StepEvent::notify() {
  {
    std::lock_guard lock(mutex_);
    rang_ = true;
  }
  heard_.notify_one();
}

void StepEvent::wait() {
  std::unique_lock lock(mutex_);
  heard_.wait(lock, [&] { return rang_; });
  rang_ = false;
}

ReplicaThread::ReplicaThread(Replica& replica, StepEvent& bell, int cores)
    : replica_(replica), bell_(bell), stats_(replica.stats()), thread_([this, cores] { run(cores); }) {}

ReplicaThread::~ReplicaThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReplicaThread::run(int cores) {
  device::set_num_threads(cores);
  device::select_device(replica_.model().device().str());  // the current accelerator is set per thread
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!paused_ && (!posted_.empty() || !replica_.idle())); });
    if (stopping_) return;
    step(lock);
  }
}

void ReplicaThread::step(std::unique_lock<std::mutex>& lock) {
  auto posted = std::exchange(posted_, {});
  stepping_ = true;
  lock.unlock();
  began_ = SteadyClock::now().time_since_epoch().count();
  std::vector<RequestOutput> outputs;
  std::exception_ptr failure;
  try {
    for (auto& work : posted) work(replica_);
    outputs = replica_.step();
  } catch (...) {
    failure = std::current_exception();
  }
  began_ = 0;
  lock.lock();
  std::ranges::move(outputs, std::back_inserter(outputs_));
  stats_ = replica_.stats();
  if (failure) failure_ = failure, paused_ = true;
  stepping_ = false;
  changed_.notify_all();
  bell_.notify();
}

void ReplicaThread::post(std::function<void(Replica&)> work) {
  std::unique_lock lock(mutex_);
  if (paused_ && !stepping_) return work(replica_);
  posted_.push_back(std::move(work));
  changed_.notify_all();
}

void ReplicaThread::pause() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [&] { return !stepping_; });
  for (auto& work : std::exchange(posted_, {})) work(replica_);
}

void ReplicaThread::resume() {
  {
    std::lock_guard lock(mutex_);
    paused_ = false;
    stats_ = replica_.stats();
  }
  changed_.notify_all();
}

std::vector<RequestOutput> ReplicaThread::collect() {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return std::exchange(outputs_, {});
}

Stats ReplicaThread::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::chrono::milliseconds ReplicaThread::in_step() const {
  int64_t began = began_;
  if (began == 0) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now().time_since_epoch() -
                                                               std::chrono::nanoseconds(began));
}

}  // namespace hone::engine
