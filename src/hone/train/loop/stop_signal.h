// SIGTERM, SIGUSR1 (a scheduler's warning) and Ctrl-C: the run saves at the next step and stops; a second signal stops it at
// once.
#pragma once
#include <exception>

#include "hone/base/error.h"

namespace hone::train {

enum class Stop { none, interrupt, terminate };

// Thrown out of work between two steps that would take too long to finish, on every process of a run: nothing has changed since
// the last step, which is what is saved.
struct StopBetweenSteps : std::exception {
  const char* what() const noexcept override { return "asked to stop"; }
};
// The same for work that failed: the run ends with this, and what it had learnt is saved.
class FailedBetweenSteps : public UserError {
 public:
  explicit FailedBetweenSteps(const UserError& problem) : UserError(problem) {}
};

// While it lives, stop signals are noted instead of ending the process; afterwards SIGUSR1 is ignored. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  static Stop requested();
};

}  // namespace hone::train
