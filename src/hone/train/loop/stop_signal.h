// SIGTERM, SIGUSR1 (a scheduler's warning) and Ctrl-C: the run saves at the next step and stops; a second signal stops it at
// once.
#pragma once
#include <exception>

#include "hone/base/error.h"

namespace hone::train {

enum class Stop { none, interrupt, terminate };

// Thrown by long-running work between two steps, on every process of a run: nothing has changed since the last step, which is
// saved.
struct StopBetweenSteps : std::exception {
  const char* what() const noexcept override { return "asked to stop"; }
};
// The same for failed work: the run ends with this error, and its progress is saved.
class FailedBetweenSteps : public UserError {
 public:
  explicit FailedBetweenSteps(const UserError& problem) : UserError(problem) {}
};

// During its lifetime, stop signals are recorded instead of ending the process; afterwards SIGUSR1 is ignored. A singleton.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  static Stop requested();
};

}  // namespace hone::train
