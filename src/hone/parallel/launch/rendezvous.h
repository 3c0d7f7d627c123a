// How ranks find each other: reaching the master, and a roll call that names who is missing or came with another world.
#pragma once
#include <chrono>

#include "hone/parallel/collectives/group_context.h"

namespace hone::parallel {

// Throws UserError(lost_peer) when the name means no address here, and gains none within seconds.
void require_resolvable(const std::string& address);

// Returns once somebody listens there, and says meanwhile who waits. Throws UserError(lost_peer) when nobody does in time.
void wait_for_master(const std::string& who, const std::string& address, int port, std::chrono::milliseconds timeout);

// The master's store, on rank 0 opened for the others. Throws UserError(lost_peer) naming the address that cannot be used.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout);

// The part of a store that one attempt of a run uses.
c10::intrusive_ptr<c10d::Store> store_of_attempt(c10::intrusive_ptr<c10d::Store> store, int attempt);

// Each rank leaves a card (how many it thinks there are, which program it is) and reads the others'.
void check_members(c10d::Store& store, const World& world, std::chrono::milliseconds timeout);

// The address this machine is known by on the way to `master`.
std::string local_address_for(const std::string& master, int port);

}  // namespace hone::parallel
