// What the processes of one emulated machine share about its cards: who uses how much memory. A file that all map, when
// settings().state names one (hone emulate-npu makes it); memory of this process alone otherwise.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace cann::cards {

struct Process {
  pid_t pid = 0;
  int64_t bytes = 0;
};

// Adds (or gives back, when negative) memory in this process's name. False, and nothing changes, when the card has not that much
// left.
bool reserve_memory(int card, int64_t bytes);
int64_t used(int card);
std::vector<Process> processes(int card);

}  // namespace cann::cards
