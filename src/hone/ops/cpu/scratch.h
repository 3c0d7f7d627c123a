// Buffers of kernels.
#pragma once
#include <cstdint>
#include <new>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// Memory from the start of a cache line on: on x86 a vector of 64 bytes that crosses two of them is read twice, which costs a
// panel product a fifth of its time.
template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* from, size_t) { ::operator delete(from, kLine); }
  bool operator==(const CacheLineAllocator&) const = default;
};
template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

// At least `size` numbers with any values, which outlive the call: for tiles, whose size does not depend on a sequence's length.
// A vector that is resized down and up again writes zeros each time; this one only grows.
template <class T, class Allocator>
T* grown(std::vector<T, Allocator>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

// Numbers with any values for one call, from the CPU's allocator, which may keep the block for the next call. For sizes that grow
// with a sequence's length.
class CallBuffer {
 public:
  explicit CallBuffer(int64_t size) : memory_(c10::GetCPUAllocator()->allocate(static_cast<size_t>(size) * sizeof(float))) {}
  float* data() const { return static_cast<float*>(memory_.get()); }

 private:
  c10::DataPtr memory_;
};

}  // namespace hone::ops::cpu
