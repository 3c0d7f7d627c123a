// A CPU allocator that keeps large blocks. Small ones go to libtorch's own allocator.
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "hone/device/memory.h"

namespace hone::device {
namespace {

constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

// Free blocks by size. A request takes the smallest block that wastes at most an eighth of itself.
class BlockStore {
 public:
  void* take(size_t size) {
    size = round_up(size);
    std::lock_guard lock(mutex_);
    auto found = free_.lower_bound(size);
    if (found != free_.end() && found->first - size <= found->first / 8) {
      void* block = found->second;
      used_.emplace(block, found->first);
      free_bytes_ -= found->first;
      free_.erase(found);
      return block;
    }
    // Sizes that no longer occur must not pile up: what is free never exceeds what is in use.
    if (free_bytes_ > used_bytes()) release_free();
    void* block = map(size);
    used_.emplace(block, size);
    mapped_bytes_ += size;
    return block;
  }

  void give_back(void* block) {
    std::lock_guard lock(mutex_);
    auto found = used_.find(block);
    free_.emplace(found->second, block);
    free_bytes_ += found->second;
    used_.erase(found);
  }

  void drop_free() {
    std::lock_guard lock(mutex_);
    release_free();
  }

 private:
  static size_t round_up(size_t size) {
    size_t step = size < kHugePage ? size_t{1} << 16 : kHugePage;
    return (size + step - 1) / step * step;
  }
  static void* map(size_t size) {
    void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, block != MAP_FAILED, "cannot allocate ", size, " bytes of memory");
    if (size >= kHugePage) ::madvise(block, size, MADV_HUGEPAGE);
    return block;
  }
  size_t used_bytes() const { return mapped_bytes_ - free_bytes_; }
  void release_free() {
    for (auto [size, block] : free_) ::munmap(block, size);
    mapped_bytes_ -= free_bytes_;
    free_bytes_ = 0;
    free_.clear();
  }

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  std::unordered_map<void*, size_t> used_;
  size_t mapped_bytes_ = 0, free_bytes_ = 0;
};

BlockStore& store() {
  static auto* const blocks = new BlockStore;  // outlives every tensor, those of other static objects included
  return *blocks;
}

void give_back(void* block) { store().give_back(block); }

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size < kLarge) return c10::GetDefaultCPUAllocator()->allocate(size);
    void* block = store().take(size);
    return {block, block, &give_back, at::Device(at::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

}  // namespace

void keep_cpu_buffers() {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(new KeepingAllocator, /*priority=*/255); });
}

void drop_kept_cpu_buffers() { store().drop_free(); }

}  // namespace hone::device
