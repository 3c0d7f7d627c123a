#include "hone/ops/cpu/thread_team.h"

#include <omp.h>

#include <chrono>
#include <utility>

namespace hone::ops::cpu {
namespace {

using Clock = std::chrono::steady_clock;
// A thread spins for this long if its last wait was shorter than the second limit, which includes the time to wake up.
constexpr auto kAwake = std::chrono::microseconds(100), kSoon = std::chrono::microseconds(300);

thread_local bool inside = false;

inline void rest() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  __builtin_ia32_pause();
#endif
}

// Waits until it differs from `value`: spins for a while if a change is likely to come soon, then sleeps.
void wait_while(const std::atomic<uint32_t>& state, uint32_t value, bool awake) {
  if (awake)
    for (const auto until = Clock::now() + kAwake; Clock::now() < until;)
      for (int i = 0; i < 8; ++i) {
        if (state.load(std::memory_order_acquire) != value) return;
        rest();
      }
  state.wait(value, std::memory_order_acquire);
}

}  // namespace

ThreadTeam& ThreadTeam::own() {
  thread_local ThreadTeam team;
  return team;
}

bool ThreadTeam::is_inside() { return inside; }

ThreadTeam::~ThreadTeam() {
  for (auto& member : members_) {
    if (::getpid() != process_) {  // a forked child has only the thread that called fork
      member->thread.detach();
      static_cast<void>(member.release());
      continue;
    }
    member->state.store(stopped, std::memory_order_release);
    member->state.notify_one();
    member->thread.join();
  }
}

void ThreadTeam::serve(Member& member) {
  inside = true;
  omp_set_num_threads(1);  // for libtorch's own operators, if the work calls one
  for (bool soon = true;;) {
    const auto before = Clock::now();
    wait_while(member.state, idle, soon);
    soon = Clock::now() - before < kSoon;
    uint32_t expected = called;
    if (member.state.compare_exchange_strong(expected, running, std::memory_order_acq_rel)) {
      try {
        call_(context_);
      } catch (...) {
        member.problem = std::current_exception();
      }
      member.state.store(idle, std::memory_order_release);
      member.state.notify_one();
    } else if (expected == stopped) {
      return;
    }
  }
}

// A member that has not started is cancelled; one that has started is waited for.
void ThreadTeam::finish(Member& member) {
  uint32_t expected = called;
  if (member.state.compare_exchange_strong(expected, idle, std::memory_order_acq_rel)) return;
  while (member.state.load(std::memory_order_acquire) == running) wait_while(member.state, running, true);
}

void ThreadTeam::run(int threads, Call call, void* context) {
  const auto others = static_cast<size_t>(threads - 1);
  while (members_.size() < others) {
    auto& member = *members_.emplace_back(std::make_unique<Member>());
    member.thread = std::thread([this, &member] { serve(member); });
  }
  call_ = call, context_ = context;
  for (size_t i = 0; i < others; ++i) {
    members_[i]->state.store(called, std::memory_order_release);
    members_[i]->state.notify_one();
  }
  std::exception_ptr problem;
  inside = true;
  try {
    call(context);
  } catch (...) {
    problem = std::current_exception();
  }
  inside = false;
  for (size_t i = 0; i < others; ++i) {
    finish(*members_[i]);
    if (auto theirs = std::exchange(members_[i]->problem, nullptr); theirs && !problem) problem = theirs;
  }
  if (problem) std::rethrow_exception(problem);
}

}  // namespace hone::ops::cpu
