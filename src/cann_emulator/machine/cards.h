// State of the cards that the processes of one emulated machine share: memory use per process. A file mapped by all of them if
// settings().state names one (created by hone emulate-npu); otherwise memory of this process.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace cann::cards {

struct Process {
  pid_t pid = 0;
  int64_t bytes = 0;
};

// Allocates (or, if negative, frees) memory for this process.
// False, without a change, if the card has not enough left.
bool reserve_memory(int card, int64_t bytes);
int64_t used(int card);
std::vector<Process> processes(int card);

}  // namespace cann::cards
