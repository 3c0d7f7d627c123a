// Counting what tensors allocate. The system's own figures do not serve: the kernel sums resident pages per core and in batches,
// and memory that an earlier test freed is taken first.
#pragma once
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>

namespace hone::ops {

// While it lives, every tensor on the CPU is allocated through it; tensors may outlive it.
class CountedAllocations final : public c10::Allocator {
 public:
  CountedAllocations() : before_(c10::GetCPUAllocator()) {
    current_ = peak_ = 0;
    c10::SetCPUAllocator(this, kPriority);
  }
  ~CountedAllocations() override { c10::SetCPUAllocator(before_, kPriority); }
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;

  int64_t peak() const { return peak_; }

  c10::DataPtr allocate(size_t bytes) override {
    void* block = nullptr;  // of the C library, which tells a block's size; libtorch's own may come from mimalloc
    TORCH_CHECK_WITH(OutOfMemoryError, ::posix_memalign(&block, 64, bytes) == 0, "cannot allocate ", bytes, " bytes");
    int64_t now = current_ += static_cast<int64_t>(::malloc_usable_size(block)), most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
    return {block, block, &give_back, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

 private:
  static constexpr uint8_t kPriority = 255;
  static void give_back(void* block) {
    current_ -= static_cast<int64_t>(::malloc_usable_size(block));
    std::free(block);
  }

  inline static std::atomic<int64_t> current_ = 0, peak_ = 0;
  c10::Allocator* before_;
};

}  // namespace hone::ops
