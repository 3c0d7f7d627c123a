// Memory of the cards. The host can neither read nor write device addresses; the emulator accesses the bytes through a second
// mapping at a fixed offset. A program that touches device memory from the host therefore faults here as with a card, and memory
// between two allocations is unmapped.
#pragma once
#include "cann_emulator/acl/types.h"

namespace cann::memory {

// Card numbers are those of the machine. Sizes are rounded up to pages.
Status allocate(int card, size_t bytes, void** address);
Status release(void* address);

// Virtual memory: a reserved range of addresses, physical memory, and the mapping of one into the other.
Status reserve(int card, size_t bytes, void** address);
Status unreserve(void* address);
Status create_physical(int card, size_t bytes, void** handle);
Status destroy_physical(void* handle);
Status map(void* address, size_t bytes, size_t offset, void* handle);
Status unmap(void* address);

struct Use {
  size_t free = 0, total = 0;
};
Use use(int card);  // by all processes of the machine

bool is_device(const void* address);
// The address through which the emulator accesses these bytes; null if any is not allocated. Returns a host address unchanged.
void* host_pointer(const void* address, size_t bytes);

}  // namespace cann::memory
