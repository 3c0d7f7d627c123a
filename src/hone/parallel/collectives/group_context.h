// State that all process groups of a run share, and the error when a rank is lost.
#pragma once
#include "hone/parallel/collectives/heartbeat_monitor.h"
#include "hone/parallel/collectives/process_group.h"

namespace c10d {
class Store;
}

namespace hone::parallel {

struct GroupContext {
  World world;
  ProcessGroupOptions config;
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;  // of the interface that leads to the master
  std::shared_ptr<HeartbeatMonitor> watch;
};

// Throws UserError(lost_peer) that names the lost rank if it is known, or explains the device's own error.
[[noreturn]] void lost_peer(const GroupContext& context, const std::string& doing, const std::string& cause);

}  // namespace hone::parallel
