// Data parallelism: gradients are all-reduced in buckets that overlap with the backward pass.
#pragma once
#include <memory>
#include <vector>

#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class GradientBuckets {
 public:
  // `working` is what the model computes with; `target` is what the optimizer reads the gradient of: the same tensor, or its
  // master.
  struct Parameter {
    Tensor model_param, main_param;
  };
  // In the order of the forward pass. A bucket is sent when its last gradient is known; the first one is small, so that sending
  // begins early.
  GradientBuckets(ProcessGroup& group, std::vector<Parameter> parameters, int64_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;

  void prepare_last_backward();  // the backward pass that follows is the last of its update: gradients leave as they come
  void finish();  // sends what is left and waits. Afterwards every target that some rank used holds the sum; the others have no
                  // gradient

 private:
  struct Slot {
    size_t bucket;
    int64_t offset;
    bool ready = false, used = false;
  };
  struct Bucket {
    std::vector<size_t> members;
    int64_t length = 0;  // of the gradients; behind them each member has a mark that says whether it was used
    size_t missing = 0;
    Tensor flat;
    std::unique_ptr<Work> pending;
  };
  class Hook;
  void ready(size_t parameter);
  void put(size_t parameter);
  void send_complete();
  void drop_unused(Bucket& bucket);

  ProcessGroup& group_;
  std::vector<Parameter> parameters_;
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  // ranks send buckets in the same order, whatever the order of their gradients
  bool armed_ = false;
};

}  // namespace hone::parallel
