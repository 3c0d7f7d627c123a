// Limits the bytes of request bodies held at a time, from their first byte on: in total, and per client. I/O thread only.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace hone::serve {

class BodyBudget {
 public:
  BodyBudget(size_t all, size_t each) : all_(all), each_(each) {}
  BodyBudget(const BodyBudget&) = delete;

  // The bytes held by one request. Released with the value, or before.
  class Held {
   public:
    Held(std::shared_ptr<BodyBudget> budget, std::string client) : budget_(std::move(budget)), client_(std::move(client)) {}
    ~Held() { give_back(); }
    Held(const Held&) = delete;

    // False: not enough room in total. A single body is always accepted, since the connection limits its size.
    bool grow_to(size_t bytes) {
      if (bytes <= bytes_) return true;
      const size_t more = bytes - bytes_, theirs = budget_->of(client_);
      bool alone = budget_->used_ == bytes_, alone_of_client = theirs == bytes_;
      if (!alone && (budget_->used_ + more > budget_->all_ || (!alone_of_client && theirs + more > budget_->each_))) return false;
      budget_->used_ += more;
      budget_->by_client_[client_] += more;
      bytes_ = bytes;
      return true;
    }
    bool grow_by(size_t more) { return grow_to(bytes_ + more); }
    void give_back() {
      if (bytes_ == 0) return;
      budget_->used_ -= bytes_;
      auto found = budget_->by_client_.find(client_);
      if ((found->second -= std::exchange(bytes_, 0)) == 0) budget_->by_client_.erase(found);
    }

   private:
    std::shared_ptr<BodyBudget> budget_;  // connections may outlive their listener
    std::string client_;
    size_t bytes_ = 0;
  };

  size_t used() const { return used_; }

 private:
  size_t of(const std::string& client) const {
    auto found = by_client_.find(client);
    return found == by_client_.end() ? 0 : found->second;
  }
  size_t all_, each_, used_ = 0;
  std::map<std::string, size_t> by_client_;  // those that hold something
};

}  // namespace hone::serve
