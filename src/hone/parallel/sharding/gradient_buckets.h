// Data parallelism: gradients are all-reduced in buckets that overlap with the backward pass.
#pragma once
#include <memory>
#include <vector>

#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class GradientBuckets {
 public:
  // The model computes with `working`; the optimizer reads the gradient of `target`: the same tensor, or its master weight.
  struct Parameter {
    Tensor model_param, main_param;
  };
  // In the order of the forward pass. A bucket is reduced when its last gradient is ready; the first one is small, so that
  // communication starts early.
  GradientBuckets(ProcessGroup& group, std::vector<Parameter> parameters, int64_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;

  void prepare_last_backward();  // the next backward pass is the last of its update: buckets are reduced as they become ready
  void finish();  // reduces the rest and waits. Then every target that some rank used holds the sum; the others have no
                  // gradient

 private:
  struct Slot {
    size_t bucket;
    int64_t offset;
    bool ready = false, used = false;
  };
  struct Bucket {
    std::vector<size_t> members;
    int64_t length = 0;  // of the gradients; after them a flag per member, whether it was used
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
  size_t next_ = 0;  // ranks reduce buckets in the same order, regardless of the order of their gradients
  bool armed_ = false;
};

}  // namespace hone::parallel
