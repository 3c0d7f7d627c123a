// Starts the ranks of this node, shows what they print, passes signals on, ends them together when one fails, and starts them again.
#pragma once
#include <string>
#include <vector>

#include "hone/parallel/world.h"

namespace hone::parallel {

struct SupervisorConfig {
  Launch launch;
  std::vector<std::string> command;  // argv of each rank; argv[0] keeps the front end's name
  int max_restarts = 0;              // from the last checkpoint, with a growing pause; never after a mistake that would come again
  double grace_seconds = 10;         // between asking a rank to end and killing it
};

// The exit code of the run: 0 when all ranks ended well, else that of the rank that failed first. The first rank of the node owns the
// terminal; the others' lines are prefixed with their rank.
int supervise(const SupervisorConfig& config);

// True in a process that supervise() started.
bool is_supervised();

}  // namespace hone::parallel
