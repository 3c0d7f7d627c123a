// How much memory something may take, and all such things together.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

namespace hone::engine {

// What is taken comes out of the parent's budget too, and goes back when this one ends. Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(size_t limit, std::shared_ptr<ByteBudget> parent = nullptr) : limit_(limit), parent_(std::move(parent)) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;
  ~ByteBudget() {
    if (parent_) parent_->give_back(used());
  }

  // False, and nothing is taken, when it would be too much.
  bool take(size_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_ && (!parent_ || parent_->take(bytes))) return true;
    used_ -= bytes;
    return false;
  }
  void give_back(size_t bytes) {
    used_ -= bytes;
    if (parent_) parent_->give_back(bytes);
  }
  size_t used() const { return used_; }
  size_t limit() const { return limit_; }

 private:
  std::atomic<size_t> used_ = 0;
  size_t limit_;
  std::shared_ptr<ByteBudget> parent_;
};

}  // namespace hone::engine
