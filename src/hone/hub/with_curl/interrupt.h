// Ctrl-C while downloading: transfers stop, progress is saved, and the command explains how to resume.
#pragma once
#include <signal.h>

#include <chrono>

namespace hone::hub {

// Takes over SIGINT and SIGTERM for its lifetime.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

 private:
  struct sigaction interrupt_before_, terminate_before_;
};

bool interrupted();
void throw_if_interrupted();  // UserError(interrupted)
// Sleeps in short intervals, so that an interrupt is noticed at once.
void wait_for(std::chrono::milliseconds time);

}  // namespace hone::hub
