// Current and peak memory use: of the caching allocator on accelerators, of the resident set on the CPU.
#pragma once
#include <cstdint>

#include "hone/device/tensor.h"

namespace hone::device {

struct MemoryUse {
  int64_t current = 0, peak = 0, total = 0;  // bytes; total is what the device or machine has
};

MemoryUse memory_use(at::Device device);
void reset_peak_memory(at::Device device);
// Whether tensors take less than this share of an accelerator's memory, for decisions while a pass is launched. False where
// libtorch cannot tell.
bool tensors_take_less_than(double share, at::Device device);
// Returns cached, unused memory to the device or the system.
void empty_cache(at::Device device);

// Training and generation request the same large buffers in every step. Keeps freed ones, on huge pages, instead of returning
// them to the system, where every new page would cost a fault. Existing tensors are not affected.
void enable_cpu_caching_allocator();
void empty_cpu_cache();  // returns cached, unused memory to the system

}  // namespace hone::device
