#include "hone/model/slice_team.h"

#include <algorithm>
#include <atomic>

#include "hone/base/error.h"
#include "hone/device/cores.h"
#include "hone/device/device.h"

namespace hone::model {

// All slices lay their parts down, wait, add up all of them in the same order, and wait again before the next.
struct SliceTeam::Meeting {
  explicit Meeting(size_t slices) : parts(slices), everyone(std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(slices))) {}
  TensorList parts;
  std::unique_ptr<std::barrier<>> everyone;
  std::atomic<bool> left{false};  // somebody failed and will not come

  void wait() {
    everyone->arrive_and_wait();
    if (left) throw InternalError("another slice of the model failed");
  }
};

struct SliceTeam::Member : PartialSums {
  Member(Meeting& meeting, size_t slice) : meeting(meeting), slice(slice) {}
  Meeting& meeting;
  size_t slice;

  Tensor total(const Tensor& partial) override {
    meeting.parts[slice] = partial;
    meeting.wait();
    auto sum = meeting.parts[0].to(partial.device());
    for (size_t i = 1; i < meeting.parts.size(); ++i) sum = sum + meeting.parts[i].to(partial.device());
    meeting.wait();
    return sum;
  }
};

SliceTeam::SliceTeam(const std::vector<at::Device>& devices)
    : devices_(devices),
      cores_(std::max(1, device::cores() / static_cast<int>(devices.size()))),
      meeting_(std::make_unique<Meeting>(devices.size())) {
  for (size_t i = 0; i < devices.size(); ++i) sums_.push_back(std::make_unique<Member>(*meeting_, i));
  for (size_t i = 1; i < devices.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
}

SliceTeam::~SliceTeam() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void SliceTeam::run(const std::function<void(size_t)>& work) {
  std::lock_guard alone(in_use_);
  const int all_cores = device::cores();
  {
    std::lock_guard lock(mutex_);
    work_ = &work, busy_ = threads_.size(), failure_ = nullptr, ++round_;
    inference_ = c10::InferenceMode::is_enabled(), gradients_ = at::GradMode::is_enabled();
    if (meeting_->left) meeting_->everyone = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(devices_.size()));
    meeting_->left = false;
  }
  changed_.notify_all();
  device::use_cores(cores_);
  guarded(0);
  device::use_cores(all_cores);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  std::ranges::fill(meeting_->parts, Tensor());
  if (failure_) std::rethrow_exception(failure_);
}

void SliceTeam::serve(size_t slice) {
  device::use_cores(cores_);
  device::pick(devices_[slice].str());  // an accelerator is chosen by each thread for itself
  std::unique_lock lock(mutex_);
  for (uint64_t done = 0;;) {
    changed_.wait(lock, [&] { return stopping_ || round_ != done; });
    if (stopping_) return;
    done = round_;
    lock.unlock();
    {
      c10::InferenceMode inference(inference_);
      at::AutoGradMode gradients(gradients_);
      guarded(slice);
    }
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void SliceTeam::guarded(size_t slice) {
  try {
    (*work_)(slice);
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    meeting_->left = true;
    meeting_->everyone->arrive_and_drop();
  }
}

}  // namespace hone::model
