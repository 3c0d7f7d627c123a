// What every group of processes of a run shares, and what becomes of a run when one of them is lost.
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

// Throws UserError(lost_peer) that says which rank is gone, as far as it can be known, or what the device's own words mean.
[[noreturn]] void lost_peer(const GroupContext& context, const std::string& doing, const std::string& cause);

}  // namespace hone::parallel
