// Worker threads of tensor parallel inference, and the barrier at which they all-reduce.
#pragma once
#include <barrier>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hone/model/tensor_parallel/region.h"

namespace hone::model {

class TensorParallelWorkers {
 public:
  explicit TensorParallelWorkers(const std::vector<at::Device>& devices);  // one shard on each; they may be the same
  ~TensorParallelWorkers();

  // work(i) for every shard, concurrently; shard 0 on the caller's thread. Rethrows the first failure; no shard waits for a
  // failed one.
  void run(const std::function<void(size_t shard)>& work);
  TensorParallelRegion& region(size_t shard) { return *regions_[shard]; }

 private:
  struct AllReduceBarrier;
  struct WorkerRegion;
  void serve(size_t shard);
  void guarded(size_t shard);

  std::vector<at::Device> devices_;
  int cores_;  // of each shard
  std::unique_ptr<AllReduceBarrier> barrier_;
  std::vector<std::unique_ptr<TensorParallelRegion>> regions_;
  std::mutex in_use_, mutex_;  // one run at a time; of the threads' condition
  std::condition_variable changed_;
  const std::function<void(size_t)>* work_ = nullptr;
  uint64_t round_ = 0;
  size_t busy_ = 0;
  bool inference_ = false, gradients_ = true, stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace hone::model
