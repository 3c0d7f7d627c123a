// Several processes as the trainer sees them: with the whole model on each (data parallel), or with its state spread over them.
#pragma once
#include "hone/parallel/gradient_buckets.h"
#include "hone/parallel/sharded_model.h"
#include "hone/train/group.h"

namespace hone::train {

// Processes that add up numbers.
class JoinedGroup : public Group {
 public:
  explicit JoinedGroup(parallel::ProcessGroup& processes) : processes_(processes) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  void sum_(Tensor& values) override { processes_.all_reduce(values)->wait(); }
  double seconds_waited() const override { return processes_.seconds_waited(); }
  int64_t bytes_sent() const override { return processes_.bytes_sent(); }

 private:
  parallel::ProcessGroup& processes_;
};

// Every process holds the whole model and its own batches; gradients are summed while the last backward pass of an update runs.
class DataParallelGroup final : public JoinedGroup {
 public:
  // `parameters` in the order of the forward pass, with what the optimizer updates for each.
  DataParallelGroup(parallel::ProcessGroup& processes, std::vector<parallel::GradientBuckets::Parameter> parameters, int64_t bucket_bytes);

  void before_pass(bool last) override {
    if (last) buckets_.arm();
  }
  void finish_gradients() override { buckets_.finish(); }

 private:
  parallel::GradientBuckets buckets_;
};

// The processes keep parts of the optimizer, of the gradients and of the weights.
class ShardedGroup final : public JoinedGroup {
 public:
  ShardedGroup(parallel::ProcessGroup& processes, parallel::ProcessGroup& shards, parallel::ProcessGroup* replicas, parallel::ShardedModel& model)
      : JoinedGroup(processes), shards_(shards), replicas_(replicas), model_(model) {}

  double seconds_waited() const override { return JoinedGroup::seconds_waited() + shards_.seconds_waited() + (replicas_ ? replicas_->seconds_waited() : 0); }
  int64_t bytes_sent() const override { return JoinedGroup::bytes_sent() + shards_.bytes_sent() + (replicas_ ? replicas_->bytes_sent() : 0); }
  void before_pass(bool last) override { model_.begin_backward(last); }
  void after_pass() override { model_.end_backward(); }
  Tensor clip(optim::Optimizer& optimizer, double max_norm) override;
  void after_update() override { model_.publish(); }
  bool owns_state() const override { return !replicas_ || replicas_->rank() == 0; }
  void hold_whole_model(bool hold) override { model_.hold_whole(hold); }

 private:
  parallel::ProcessGroup& shards_;
  parallel::ProcessGroup* replicas_;  // null when there is one copy
  parallel::ShardedModel& model_;
};

// The same groups, of the pieces that this process keeps. A piece is called after its parameter and where it begins: "name@1024".
std::vector<optim::ParameterGroup> piece_groups(const std::vector<optim::ParameterGroup>& groups, const parallel::ShardedModel& model);
// Throws UserError(usage) for an optimizer that looks at whole matrices, which no process has.
void require_elementwise(const std::string& optimizer);

}  // namespace hone::train
