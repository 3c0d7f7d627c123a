// Threads that compute the slices of one model together, and where they meet to sum their parts.
#pragma once
#include <barrier>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hone/model/partial_sums.h"

namespace hone::model {

class SliceTeam {
 public:
  explicit SliceTeam(const std::vector<at::Device>& devices);  // one slice on each; they may be the same
  ~SliceTeam();

  // work(i) for every slice, side by side; slice 0 on the caller's thread. Rethrows the first failure; nobody waits for who failed.
  void run(const std::function<void(size_t slice)>& work);
  PartialSums& sums(size_t slice) { return *sums_[slice]; }

 private:
  struct Meeting;
  struct Member;
  void serve(size_t slice);
  void guarded(size_t slice);

  std::vector<at::Device> devices_;
  int cores_;  // of each slice
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<PartialSums>> sums_;
  std::mutex in_use_, mutex_;  // one run at a time; what the threads wait for
  std::condition_variable changed_;
  const std::function<void(size_t)>* work_ = nullptr;
  uint64_t round_ = 0;
  size_t busy_ = 0;
  bool inference_ = false, gradients_ = true, stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace hone::model
