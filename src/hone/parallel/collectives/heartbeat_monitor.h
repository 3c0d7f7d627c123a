// Detects lost ranks. Each rank writes heartbeats to the master's store; a rank without one is reported, and the run ends.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "hone/parallel/launch/world.h"

namespace hone::parallel {

class HeartbeatMonitor {
 public:
  // Starts to send and check heartbeats. A rank without one for `limit` ends this process with ExitCode::lost_peer.
  HeartbeatMonitor(const World& world, std::chrono::milliseconds limit);
  ~HeartbeatMonitor();

  // A collective begins: reports say which one a rank was in.
  void enter(const char* collective);
  // Called when a collective has failed: the rank that is lost or late, found within a few seconds; empty if there is none.
  std::string explain();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Reports a lost rank to all ranks of a run: a supervisor calls it when a rank of its node has died.
void report_lost_rank(const std::string& master_address, int master_port, const std::string& what);

}  // namespace hone::parallel
