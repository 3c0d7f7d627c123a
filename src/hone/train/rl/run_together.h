// Work that every process of a group does, and that stops or fails in all of them if it does in one.
#pragma once
#include <optional>

#include "hone/base/error.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train::rl {

// `what` is the work's name in the message of the processes where it succeeded: "a reward failed in another process".
template <class Group, class Work>
void run_together(Group& group, const char* what, Work work) {
  bool stop = false;
  std::optional<UserError> problem;
  try {
    work();
  } catch (const StopBetweenSteps&) {
    stop = true;
  } catch (const UserError& found) {
    problem = found;
  }
  if (group.any(stop)) throw StopBetweenSteps();
  if (group.any(problem.has_value()))
    throw FailedBetweenSteps(
        problem.value_or(UserError(ExitCode::failure, fmt::format("{} failed in another process; its own log says why", what))));
}

}  // namespace hone::train::rl
