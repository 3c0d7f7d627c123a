// Memory of the cards. A device address is in a range that the host can neither read nor write; the emulator reaches the bytes
// through a second mapping at a fixed distance. A program that touches device memory from the host therefore faults here as it
// does with a card, and what is between two allocations is mapped nowhere.
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
Use use(int card);  // by all processes that share the machine

bool is_device(const void* address);
// Where the emulator reads and writes these bytes; null when any of them is not allocated. A host address is returned as it is.
void* host_pointer(const void* address, size_t bytes);

}  // namespace cann::memory
