// Worker threads for work without the engine: parsing large requests, formatting large responses.
#pragma once
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <type_traits>
#include <vector>

#include "hone/base/fault_injection.h"
#include "hone/serve/http/signal.h"

namespace hone::serve {

class Workers {
 public:
  explicit Workers(size_t threads) : pool_(threads), began_(threads) {}

  // Runs `work` on one of the threads; rethrows its exceptions here.
  template <class Work>
  asio::awaitable<std::invoke_result_t<Work>> run(Work work) {
    auto on_worker = [](Workers& self, Work inner) -> asio::awaitable<std::invoke_result_t<Work>> {
      Task task(self.began_);
      fault("serve.aside");
      co_return inner();
    };
    co_return co_await asio::co_spawn(pool_, on_worker(*this, std::move(work)), asio::use_awaitable);
  }

  // How long all of them have been busy with their current task; 0 while one is free. Thread-safe.
  std::chrono::milliseconds all_busy_for() const;
  void join() { pool_.join(); }

 private:
  using Starts = std::vector<std::atomic<int64_t>>;  // of the tasks under way, steady clock, nanoseconds; 0: none
  class Task {
   public:
    explicit Task(Starts& starts);
    ~Task() { *began_ = 0; }
    Task(const Task&) = delete;

   private:
    std::atomic<int64_t>* began_;
  };

  asio::thread_pool pool_;
  Starts began_;
};

}  // namespace hone::serve
