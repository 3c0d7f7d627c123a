// Data parallelism: every process holds the whole model and its own batches; gradients are summed before the optimizer steps.
#pragma once
#include "hone/parallel/process_group.h"
#include "hone/train/group.h"

namespace hone::train {

class DataParallelGroup final : public Group {
 public:
  explicit DataParallelGroup(parallel::ProcessGroup& processes, int64_t bucket_bytes = 25 << 20)
      : processes_(processes), bucket_bytes_(bucket_bytes) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  double sum(double value) override;
  void sum_(Tensor& values) override;
  // Buckets of gradients travel while the next ones are filled. A parameter without a gradient counts as zero, so that ranks that did
  // not use it stay in step with those that did.
  void finish_gradients(optim::Optimizer& optimizer) override;

  // Rank 0's values on every rank: called once, before the first step.
  void share_from_main(const std::vector<optim::ParameterGroup>& groups);

 private:
  parallel::ProcessGroup& processes_;
  int64_t bucket_bytes_;
};

}  // namespace hone::train
