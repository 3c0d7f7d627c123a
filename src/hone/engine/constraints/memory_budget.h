// Memory limits for one constraint and for all constraints together.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

namespace hone::engine {

// Memory taken here also counts for the parent's budget, and is returned when this one is destroyed. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t limit, std::shared_ptr<MemoryBudget> parent = nullptr)
      : limit_(limit), parent_(std::move(parent)) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  ~MemoryBudget() {
    if (parent_) parent_->release(used());
  }

  // False, without taking anything, if the limit would be exceeded.
  bool take(size_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_ && (!parent_ || parent_->take(bytes))) return true;
    used_ -= bytes;
    return false;
  }
  void release(size_t bytes) {
    used_ -= bytes;
    if (parent_) parent_->release(bytes);
  }
  size_t used() const { return used_; }
  size_t limit() const { return limit_; }

 private:
  std::atomic<size_t> used_ = 0;
  size_t limit_;
  std::shared_ptr<MemoryBudget> parent_;
};

}  // namespace hone::engine
