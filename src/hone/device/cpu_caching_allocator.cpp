// A CPU allocator that caches large blocks. Small ones use libtorch's own allocator.
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "hone/device/memory.h"

namespace hone::device {
namespace {

constexpr size_t kLarge = size_t{1} << 17;  // malloc returns such blocks to the system, whose new pages must be cleared
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSpare = size_t{128} << 20;

// Free blocks by size. A request takes the smallest block that wastes at most an eighth of its size.
class BlockStore {
 public:
  void* take(size_t size) {
    size = round_up(size);
    std::lock_guard lock(mutex_);
    void* block;
    auto found = free_.lower_bound(size);
    if (found != free_.end() && found->first - size <= found->first / 8) {
      size = found->first;
      block = found->second.place;
      free_bytes_ -= size;
      free_.erase(found);
    } else {
      make_room(size);
      block = map(size);
      mapped_bytes_ += size;
    }
    used_.emplace(block, size);
    most_used_ = std::max(most_used_, mapped_bytes_ - free_bytes_);
    return block;
  }

  // False for a block that this cache does not own.
  bool give_back(void* block) {
    std::lock_guard lock(mutex_);
    auto found = used_.find(block);
    if (found == used_.end()) return false;
    const size_t size = found->second;
    free_.emplace_hint(free_.lower_bound(size), size, FreeBlock{block, ++returned_});  // the newest of equal ones is taken first
    free_bytes_ += size;
    used_.erase(found);
    return true;
  }

  void drop_free() {
    std::lock_guard lock(mutex_);
    while (!free_.empty()) release(free_.begin());
  }

 private:
  struct FreeBlock {
    void* place;
    uint64_t since;  // its number among all blocks that were given back
  };
  using FreeBlocks = std::multimap<size_t, FreeBlock>;

  static size_t round_up(size_t size) {
    const size_t step = size < size_t{1} << 20 ? size_t{1} << 14 : size < kHugePage ? size_t{1} << 16 : kHugePage;
    return (size + step - 1) / step * step;
  }
  static void* map(size_t size) {
    const size_t spare = size < kHugePage ? 0 : kHugePage;
    void* place = ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, place != MAP_FAILED, "cannot allocate ", size, " bytes of memory");
    if (spare == 0) return place;
    auto* const first = static_cast<std::byte*>(place);
    const size_t before =
        (kHugePage - reinterpret_cast<uintptr_t>(place) % kHugePage) % kHugePage;  // a huge page starts at a multiple of its size
    if (before > 0) ::munmap(first, before);
    if (before < spare) ::munmap(first + before + size, spare - before);
    ::madvise(first + before, size, MADV_HUGEPAGE);
    return first + before;
  }
  // Sizes no longer requested must not accumulate: the cache holds at most a quarter more than the peak usage, or kSpare. A step
  // of a small model takes blocks of more sizes than it uses at a time. The blocks that were unused for longest go first: a miss
  // of a small one must not unmap a large one that every step needs.
  void make_room(size_t size) {
    auto is_older = [](const auto& a, const auto& b) { return a.second.since < b.second.since; };
    while (!free_.empty() && mapped_bytes_ + size > most_used_ + std::max(most_used_ / 4, kSpare))
      release(std::min_element(free_.begin(), free_.end(), is_older));
  }
  void release(FreeBlocks::iterator block) {
    ::munmap(block->second.place, block->first);
    mapped_bytes_ -= block->first;
    free_bytes_ -= block->first;
    free_.erase(block);
  }

  std::mutex mutex_;
  FreeBlocks free_;
  std::unordered_map<void*, size_t> used_;
  uint64_t returned_ = 0;
  size_t mapped_bytes_ = 0, free_bytes_ = 0, most_used_ = 0;
};

BlockStore& store() {
  static auto* const blocks = new BlockStore;  // outlives all tensors, including those of static objects
  return *blocks;
}

// oneDNN frees by pointer alone, small and large blocks alike.
void give_back(void* block) {
  if (!store().give_back(block)) c10::GetDefaultCPUAllocator()->raw_deallocate(block);
}

class CpuCachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size < kLarge) return c10::GetDefaultCPUAllocator()->allocate(size);
    void* block = store().take(size);
    return {block, block, &give_back, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

}  // namespace

void enable_cpu_caching_allocator() {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(new CpuCachingAllocator, /*priority=*/255); });
}

void empty_cpu_cache() { store().drop_free(); }

}  // namespace hone::device
