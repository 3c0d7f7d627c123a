// Knows which ranks still live. Each says so at the master's store every now and then; a silent one is named, and the run ends.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "hone/parallel/launch/world.h"

namespace hone::parallel {

class HeartbeatMonitor {
 public:
  // Starts to beat and to listen. A rank that is silent for `limit` ends this process with ExitCode::lost_peer and a message.
  HeartbeatMonitor(const World& world, std::chrono::milliseconds limit);
  ~HeartbeatMonitor();

  // A collective begins: reports say which one a rank was in.
  void enter(const char* collective);
  // Called when a collective has failed: which rank is gone or behind, as far as a few seconds tell; empty when nobody is.
  std::string explain();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Tells every rank of a run that one of them is gone: what a supervisor does when a rank of its node has died.
void report_lost_rank(const std::string& master_address, int master_port, const std::string& what);

}  // namespace hone::parallel
