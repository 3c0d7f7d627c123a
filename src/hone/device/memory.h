// How much memory the program uses and used at most: the caching allocator's count on accelerators, the resident set on the CPU.
#pragma once
#include <cstdint>

#include "hone/device/tensor.h"

namespace hone::device {

struct MemoryUse {
  int64_t current = 0, peak = 0, total = 0;  // bytes; total is what the device or machine has
};

MemoryUse memory_use(at::Device device);
void reset_peak_memory(at::Device device);
// Returns to the device, or the system, what is kept for later and unused now.
void empty_cache(at::Device device);

// Training and generation ask for the same large buffers again every step. Keeps freed ones, on huge pages, instead of returning
// them to the system, where each new page would cost a fault. Tensors made before the call stay where they are.
void enable_cpu_caching_allocator();
void empty_cpu_cache();  // returns what is kept and unused to the system

}  // namespace hone::device
