// Starts the ranks of this node, relays their output and signals, ends all of them when one fails, and restarts them.
#pragma once
#include <string>
#include <vector>

#include "hone/parallel/launch/world.h"

namespace hone::parallel {

struct SupervisorConfig {
  LaunchConfig launch;
  std::vector<std::string> command;  // argv of each rank; argv[0] keeps the front end's name
  int max_restarts = 0;              // from the last checkpoint, with a growing pause; never after an error that would repeat
  double grace_seconds = 10;         // between asking a rank to end and killing it
};

struct LaunchResult {
  int code = 0;     // 0 when all ranks ended well, else that of the rank that failed first
  std::string why;  // "rank 1 was killed by signal 9 (Killed)"; empty for 0
  std::string
      run;  // the folder that the run was written to; empty when it did not come so far, or on another node than the first
};

// The first rank of the node owns the terminal; the others' lines are prefixed with their rank.
LaunchResult supervise(const SupervisorConfig& config);

// True in a process that supervise() started.
bool is_supervised();

}  // namespace hone::parallel
