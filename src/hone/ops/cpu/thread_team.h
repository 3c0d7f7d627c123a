// Threads that compute together for a few microseconds at a time, as decoding does hundreds of times per token. OpenMP's threads
// wait for each other at the end of every region, spinning or sleeping by one global setting. These spin as long as work comes
// quickly, and a thread that has not started is not waited for: on shared cores, the running threads do the work.
#pragma once
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace hone::ops::cpu {

class ThreadTeam {
 public:
  static ThreadTeam& own();  // of the calling thread
  static bool is_inside();   // whether the calling thread computes for a team at this moment

  ~ThreadTeam();

  // work() on the calling thread and on up to `threads` - 1 others concurrently. Any one of them alone must be able to do all of
  // it. Rethrows the first exception.
  template <class Work>
  void run(int threads, Work& work) {
    run(
        threads, [](void* context) { (*static_cast<Work*>(context))(); }, &work);
  }

 private:
  using Call = void (*)(void*);
  enum State : uint32_t { idle, called, running, stopped };

  struct alignas(128) Member {
    std::atomic<uint32_t> state{idle};
    std::exception_ptr problem;
    std::thread thread;
  };

  void run(int threads, Call call, void* context);
  void serve(Member& member);
  static void finish(Member& member);

  const int process_ = ::getpid();
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace hone::ops::cpu
