// Rendezvous: connects to the master and checks that all ranks are present and have the same world size.
#pragma once
#include <chrono>

#include "hone/parallel/collectives/group_context.h"

namespace hone::parallel {

// Throws UserError(lost_peer) when the name does not resolve within seconds.
void require_resolvable(const std::string& address);

// Returns once the address accepts connections, and logs that it waits. Throws UserError(lost_peer) after the time limit.
void wait_for_master(const std::string& who, const std::string& address, int port, std::chrono::milliseconds timeout);

// The master's store, on rank 0 opened for the others. Throws UserError(lost_peer) naming the address that cannot be used.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout);

// The part of a store that one attempt of a run uses.
c10::intrusive_ptr<c10d::Store> store_of_attempt(c10::intrusive_ptr<c10d::Store> store, int attempt);

// Each rank writes its world size and build to the store and compares those of the others.
void check_members(c10d::Store& store, const World& world, std::chrono::milliseconds timeout);

// This machine's address on the interface towards `master`.
std::string local_address_for(const std::string& master, int port);

}  // namespace hone::parallel
