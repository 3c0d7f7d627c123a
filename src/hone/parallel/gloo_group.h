// Collectives between CPUs.
#pragma once
#include "hone/parallel/peer_watch.h"
#include "hone/parallel/process_group.h"

namespace c10d {
class Store;
}

namespace hone::parallel {

// What every group of a run shares.
struct GroupContext {
  World world;
  GroupConfig config;
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;  // of the interface that leads to the master
  std::shared_ptr<PeerWatch> watch;
};

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupContext& context, const std::string& name, int rank, int size);

// Throws UserError(lost_peer) that says which rank is gone, as far as it can be known.
[[noreturn]] void lost_peer(const GroupContext& context, const std::string& doing, const std::string& cause);

}  // namespace hone::parallel
