// Streams, events and the device a thread works on. Work runs at once, in the order of the calls: torch_npu feeds all streams of
// a card from one queue, so this is one of the orders hardware may choose. What went wrong on a stream is reported where hardware
// reports it: when somebody waits for it.
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

// Devices are counted as the process sees them; card() turns one into the machine's number.
int card(int device);
int current_device();  // -1 before any set
Context* context_of(int device);

// The stream's error, or that of its card: a lost card answers every question so.
Status status_of(const Stream* stream);
void mark_card_lost(int device);
bool card_lost(int device);

}  // namespace cann
