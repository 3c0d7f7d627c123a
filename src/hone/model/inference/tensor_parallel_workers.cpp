#include "hone/model/inference/tensor_parallel_workers.h"

#include <algorithm>
#include <atomic>

#include "hone/base/error.h"
#include "hone/device/device.h"
#include "hone/device/num_threads.h"

namespace hone::model {

// All shards publish their partial results, wait, sum all of them in the same order, and wait again before the next sum.
struct TensorParallelWorkers::AllReduceBarrier {
  explicit AllReduceBarrier(size_t shards)
      : parts(shards), everyone(std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(shards))) {}
  TensorList parts;
  std::unique_ptr<std::barrier<>> everyone;
  std::atomic<bool> left{false};  // a worker failed and will not arrive

  void wait() {
    everyone->arrive_and_wait();
    if (left) throw InternalError("another tensor parallel rank failed");
  }
};

struct TensorParallelWorkers::WorkerRegion : TensorParallelRegion {
  WorkerRegion(AllReduceBarrier& barrier, size_t shard) : barrier(barrier), shard(shard) {}
  AllReduceBarrier& barrier;
  size_t shard;

  Tensor leave(const Tensor& partial) override {
    barrier.parts[shard] = partial;
    barrier.wait();
    auto sum = barrier.parts[0].to(partial.device());
    for (size_t i = 1; i < barrier.parts.size(); ++i) sum = sum + barrier.parts[i].to(partial.device());
    barrier.wait();
    return sum;
  }
};

TensorParallelWorkers::TensorParallelWorkers(const std::vector<at::Device>& devices)
    : devices_(devices),
      cores_(std::max(1, device::num_threads() / static_cast<int>(devices.size()))),
      barrier_(std::make_unique<AllReduceBarrier>(devices.size())) {
  for (size_t i = 0; i < devices.size(); ++i) regions_.push_back(std::make_unique<WorkerRegion>(*barrier_, i));
  for (size_t i = 1; i < devices.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
}

TensorParallelWorkers::~TensorParallelWorkers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void TensorParallelWorkers::run(const std::function<void(size_t)>& work) {
  std::lock_guard alone(in_use_);
  const int all_cores = device::num_threads();
  {
    std::lock_guard lock(mutex_);
    work_ = &work, busy_ = threads_.size(), failure_ = nullptr, ++round_;
    inference_ = c10::InferenceMode::is_enabled(), gradients_ = at::GradMode::is_enabled();
    if (barrier_->left) barrier_->everyone = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(devices_.size()));
    barrier_->left = false;
  }
  changed_.notify_all();
  device::set_num_threads(cores_);
  guarded(0);
  device::set_num_threads(all_cores);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  std::ranges::fill(barrier_->parts, Tensor());
  if (failure_) std::rethrow_exception(failure_);
}

void TensorParallelWorkers::serve(size_t shard) {
  device::set_num_threads(cores_);
  device::select_device(devices_[shard].str());  // the current accelerator is set per thread
  std::unique_lock lock(mutex_);
  for (uint64_t done = 0;;) {
    changed_.wait(lock, [&] { return stopping_ || round_ != done; });
    if (stopping_) return;
    done = round_;
    lock.unlock();
    {
      c10::InferenceMode inference(inference_);
      at::AutoGradMode gradients(gradients_);
      guarded(shard);
    }
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void TensorParallelWorkers::guarded(size_t shard) {
  try {
    (*work_)(shard);
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    barrier_->left = true;
    barrier_->everyone->arrive_and_drop();
  }
}

}  // namespace hone::model
