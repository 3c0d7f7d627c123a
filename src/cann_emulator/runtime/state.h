// Streams, events and the current device of a thread. Work runs at once, in call order: torch_npu feeds all streams of a card
// from one queue, so this is one of the orders that hardware may choose. Errors of a stream are reported where hardware reports
// them: on synchronization.
#pragma once
#include <atomic>

#include "cann_emulator/acl/types.h"

namespace cann {

struct Context {
  int device;
};

struct Stream {
  int device, id;
  std::atomic<Status> error = kOk;
};

struct Event {
  std::atomic<int64_t> recorded_at = -1;  // nanoseconds
};

// Devices are numbered as the process sees them; card() converts to the machine's numbering.
int card(int device);
int current_device();  // -1 before any set
Context* context_of(int device);

// The stream's error, or that of its card: after a lost card every call returns it.
Status status_of(const Stream* stream);
void mark_card_lost(int device);
bool card_lost(int device);

}  // namespace cann
