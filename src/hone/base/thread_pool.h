// A fixed set of worker threads and a queue of jobs. Used for data preparation; libtorch keeps its own threads for kernels.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace hone {

class ThreadPool {
 public:
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  // Runs `job` on a worker; its result or exception arrives through the future.
  template <class Job>
  auto submit(Job job) -> std::future<decltype(job())> {
    auto task = std::make_shared<std::packaged_task<decltype(job())()>>(std::move(job));
    auto future = task->get_future();
    enqueue([task] { (*task)(); });
    return future;
  }
  size_t size() const { return workers_.size(); }

 private:
  void enqueue(std::function<void()> job);
  void work();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace hone
