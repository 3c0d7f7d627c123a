#include "cann_emulator/machine/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cann_emulator/machine/cards.h"
#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/settings.h"

namespace cann::memory {
namespace {

constexpr size_t kPage = 65536;  // page size on every supported kernel: 4 KiB on x86_64, 4 to 64 KiB on aarch64

size_t pages(size_t bytes) { return (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage; }

// First-fit ranges of an address space, kept one page apart.
class Ranges {
 public:
  Ranges(size_t begin, size_t end) : free_{{begin, end - begin}} {}

  bool take(size_t bytes, size_t& at) {
    size_t wanted = bytes + kPage;
    for (auto& [start, size] : free_) {
      if (size < wanted) continue;
      at = start;
      size_t rest = size - wanted, next = start + wanted;
      free_.erase(start);
      if (rest) free_[next] = rest;
      return true;
    }
    return false;
  }

  void give(size_t at, size_t bytes) {
    auto here = free_.emplace(at, bytes + kPage).first;
    if (auto next = std::next(here); next != free_.end() && here->first + here->second == next->first) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here == free_.begin()) return;
    if (auto before = std::prev(here); before->first + before->second == here->first) {
      before->second += here->second;
      free_.erase(here);
    }
  }

 private:
  std::map<size_t, size_t> free_;
};

struct Physical {
  int card;
  size_t at, bytes;
};

// Address ranges of one card, in units of its memory: two units for allocate(), since guard pages and holes lie between
// allocations, then thirty for reserve(), whose callers reserve more than they map. The backing file holds two units for each
// kind of memory.
struct Card {
  static constexpr size_t kAllocated = 2, kReserved = 30;
  Card(int number, size_t unit)
      : number(number),
        ranges(0, kAllocated * unit),
        reserved(kAllocated * unit, (kAllocated + kReserved) * unit),
        physical(2 * unit, 4 * unit) {
    file = ::memfd_create(("npu" + std::to_string(number)).c_str(), MFD_CLOEXEC);
    if (file >= 0 && ::ftruncate(file, static_cast<off_t>(4 * unit)) < 0) ::close(file), file = -1;
  }
  int number, file;
  Ranges ranges, reserved, physical;
};

class Space {
 public:
  Space()
      : unit_(pages(static_cast<size_t>(settings().memory))),
        span_(unit_ * (Card::kAllocated + Card::kReserved)),
        cards_(static_cast<size_t>(settings().cards)) {
    size_t whole = span_ * cards_.size();
    // Reserves the addresses and their second mapping together, so that the offset between them is the same in every process.
    void* start = ::mmap(nullptr, whole * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return;
    begin_ = static_cast<char*>(start);
    distance_ = whole;
  }

  bool contains(const void* p) const { return begin_ && p >= begin_ && p < begin_ + distance_; }
  size_t offset(const void* p) const { return static_cast<size_t>(static_cast<const char*>(p) - begin_) % span_; }
  size_t card_of(const void* p) const { return static_cast<size_t>(static_cast<const char*>(p) - begin_) / span_; }
  char* address(int card, size_t at) const { return begin_ + static_cast<size_t>(card) * span_ + at; }
  char* reached(const void* p) const { return const_cast<char*>(static_cast<const char*>(p)) + distance_; }
  bool usable() const { return begin_; }

  Card& card(int number) {
    auto& slot = cards_[static_cast<size_t>(number)];
    if (!slot) slot = std::make_unique<Card>(number, unit_);
    return *slot;
  }

  bool show(void* address, size_t bytes, int file, size_t at) const {
    return ::mmap(reached(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(at)) !=
           MAP_FAILED;
  }
  void hide(void* address, size_t bytes) const {
    ::mmap(reached(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }

  std::mutex mutex;
  std::map<const char*, size_t> live;      // address → accessible bytes
  std::map<const char*, size_t> reserves;  // address → bytes reserved

 private:
  size_t unit_, span_, distance_ = 0;
  char* begin_ = nullptr;
  std::vector<std::unique_ptr<Card>> cards_;
};

Space& space() {
  static auto* kSpace = new Space;  // outlives every destructor that frees device memory
  return *kSpace;
}

// Returns the pages to the system, as freeing memory on a card does.
void punch(int file, size_t at, size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(bytes));
}

Status out_of_memory(int card, size_t bytes) {
  return fail(kOutOfMemory, "EL0004: [PID: " + std::to_string(::getpid()) +
                                "] Failed to allocate memory. device_id=" + std::to_string(card) +
                                ", size=" + std::to_string(bytes) + ", free=" + std::to_string(use(card).free));
}

}  // namespace

Status allocate(int card, size_t bytes, void** address) {
  auto& all = space();
  if (!all.usable()) return fail(kOutOfMemory, "no address space for the emulated cards");
  size_t size = pages(bytes), at = 0;
  if (!cards::reserve_memory(card, static_cast<int64_t>(size))) return out_of_memory(card, bytes);
  std::lock_guard lock(all.mutex);
  auto& own = all.card(card);
  if (!own.ranges.take(size, at) || !all.show(all.address(card, at), size, own.file, at)) {
    cards::reserve_memory(card, -static_cast<int64_t>(size));
    return out_of_memory(card, bytes);
  }
  *address = all.address(card, at);
  all.live[all.address(card, at)] = size;
  return kOk;
}

Status release(void* address) {
  auto& all = space();
  std::lock_guard lock(all.mutex);
  auto found = all.live.find(static_cast<char*>(address));
  if (found == all.live.end()) return fail(kRuntimeParameter, "EE1001: aclrtFree of an address that was not allocated");
  auto& card = all.card(static_cast<int>(all.card_of(address)));
  all.hide(address, found->second);
  punch(card.file, all.offset(address), found->second);
  card.ranges.give(all.offset(address), found->second);
  cards::reserve_memory(card.number, -static_cast<int64_t>(found->second));
  all.live.erase(found);
  return kOk;
}

Status reserve(int card, size_t bytes, void** address) {
  auto& all = space();
  std::lock_guard lock(all.mutex);
  size_t at = 0;
  if (!all.usable() || !all.card(card).reserved.take(pages(bytes), at)) return fail(kOutOfMemory, "no addresses left to reserve");
  *address = all.address(card, at);
  all.reserves[all.address(card, at)] = pages(bytes);
  return kOk;
}

Status unreserve(void* address) {
  auto& all = space();
  std::lock_guard lock(all.mutex);
  auto found = all.reserves.find(static_cast<char*>(address));
  if (found == all.reserves.end()) return fail(kRuntimeParameter, "EE1001: not the start of a reserved range");
  all.card(static_cast<int>(all.card_of(address))).reserved.give(all.offset(address), found->second);
  all.reserves.erase(found);
  return kOk;
}

Status create_physical(int card, size_t bytes, void** handle) {
  auto& all = space();
  size_t size = pages(bytes), at = 0;
  if (!cards::reserve_memory(card, static_cast<int64_t>(size))) return out_of_memory(card, bytes);
  std::lock_guard lock(all.mutex);
  if (!all.usable() || !all.card(card).physical.take(size, at)) {
    cards::reserve_memory(card, -static_cast<int64_t>(size));
    return out_of_memory(card, bytes);
  }
  *handle = new Physical{card, at, size};
  return kOk;
}

Status destroy_physical(void* handle) {
  if (!handle) return fail(kInvalidMemoryHandle, "EE1001: null memory handle");
  std::unique_ptr<Physical> own(static_cast<Physical*>(handle));
  auto& all = space();
  std::lock_guard lock(all.mutex);
  auto& card = all.card(own->card);
  punch(card.file, own->at, own->bytes);
  card.physical.give(own->at, own->bytes);
  cards::reserve_memory(own->card, -static_cast<int64_t>(own->bytes));
  return kOk;
}

Status map(void* address, size_t bytes, size_t offset, void* handle) {
  auto* own = static_cast<Physical*>(handle);
  auto& all = space();
  std::lock_guard lock(all.mutex);
  if (!own || !all.contains(address) || offset + bytes > own->bytes)
    return fail(kRuntimeParameter, "EE1001: aclrtMapMem outside its range");
  if (!all.show(address, bytes, all.card(own->card).file, own->at + offset)) return fail(kOutOfMemory, "aclrtMapMem failed");
  all.live[static_cast<char*>(address)] = bytes;
  return kOk;
}

Status unmap(void* address) {
  auto& all = space();
  std::lock_guard lock(all.mutex);
  auto found = all.live.find(static_cast<char*>(address));
  if (found == all.live.end()) return fail(kRuntimeParameter, "EE1001: aclrtUnmapMem of an address that is not mapped");
  all.hide(address, found->second);
  all.live.erase(found);
  return kOk;
}

Use use(int card) {
  auto total = static_cast<size_t>(settings().memory);
  return {total - std::min(total, static_cast<size_t>(cards::used(card))), total};
}

bool is_device(const void* address) { return space().contains(address); }

void* host_pointer(const void* address, size_t bytes) {
  auto& all = space();
  if (!all.contains(address)) return const_cast<void*>(address);
  std::lock_guard lock(all.mutex);
  // Adjacent mapped segments act as one range.
  auto* at = static_cast<const char*>(address);
  auto found = all.live.upper_bound(at);
  if (found == all.live.begin()) return nullptr;
  --found;
  const char* end = found->first + found->second;
  if (at >= end) return nullptr;
  for (++found; end < at + bytes && found != all.live.end() && found->first == end; ++found) end += found->second;
  return at + bytes <= end ? all.reached(address) : nullptr;
}

}  // namespace cann::memory
