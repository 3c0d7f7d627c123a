#include "hone/hub/with_curl/interrupt.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "hone/base/error.h"

namespace hone::hub {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // set by a signal handler

void note_interrupt(int) { g_interrupted = true; }

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = false;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  ::sigaction(SIGINT, &action, &interrupt_before_);
  ::sigaction(SIGTERM, &action, &terminate_before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &interrupt_before_, nullptr);
  ::sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool interrupted() { return g_interrupted; }

void throw_if_interrupted() {
  if (interrupted())
    throw UserError(ExitCode::interrupted, "the download was interrupted", "run the same command again: it resumes the download");
}

void wait_for(std::chrono::milliseconds time) {
  auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    throw_if_interrupted();
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), std::chrono::milliseconds(50)));
  }
}

}  // namespace hone::hub
