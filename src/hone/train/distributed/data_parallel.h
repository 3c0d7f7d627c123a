// Parallel strategies over several processes: a full model on each (data parallel), or sharded state.
#pragma once
#include "hone/parallel/sharding/gradient_buckets.h"
#include "hone/parallel/sharding/sharded_model.h"
#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train {

// Reductions over several processes.
class MultiProcess : public ParallelStrategy {
 public:
  explicit MultiProcess(parallel::ProcessGroup& processes) : processes_(processes) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  void all_reduce(Tensor& values) override { processes_.all_reduce(values)->wait(); }
  double seconds_waited() const override { return processes_.seconds_waited(); }
  int64_t bytes_sent() const override { return processes_.bytes_sent(); }

 private:
  parallel::ProcessGroup& processes_;
};

// Processes that hold the same parameters, each with its own batches; gradients are summed while the last backward pass of an
// update runs.
class DataParallel final : public MultiProcess {
 public:
  // The parameters of a process group in the order of the forward pass, each with the tensor that the optimizer updates.
  struct Copies {
    parallel::ProcessGroup* group;  // null: no other process has them
    std::vector<parallel::GradientBuckets::Parameter> parameters;
  };
  // Layers and experts may have separate groups.
  DataParallel(parallel::ProcessGroup& processes, std::vector<Copies> copies, int64_t bucket_bytes);

  void before_micro_batch(bool last) override;
  void finish_gradients() override;
  bool owns_state() const override { return is_first_replica_; }

 private:
  bool is_first_replica_ = true;
  std::vector<std::unique_ptr<parallel::GradientBuckets>> buckets_;
};

// Sharded data parallelism: the processes shard optimizer state, gradients and weights.
class ShardedDataParallel final : public MultiProcess {
 public:
  // The first model is the one that generates.
  ShardedDataParallel(parallel::ProcessGroup& processes, parallel::ProcessGroup& shards, parallel::ProcessGroup* replicas,
                      std::vector<parallel::ShardedModel*> models)
      : MultiProcess(processes), shards_(shards), replicas_(replicas), models_(std::move(models)) {}

  void before_micro_batch(bool last) override {
    for (auto* model : models_) model->begin_backward(last);
  }
  void after_micro_batch() override {
    for (auto* model : models_) model->end_backward();
  }
  Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) override;
  void after_update() override {
    for (auto* model : models_) model->sync_after_step();
  }
  bool owns_state() const override { return !replicas_ || replicas_->rank() == 0; }
  void keep_gathered(bool hold) override { models_.front()->keep_gathered(hold); }

 private:
  parallel::ProcessGroup& shards_;
  parallel::ProcessGroup* replicas_;  // null with one replica
  std::vector<parallel::ShardedModel*> models_;
};

// The tensor that the optimizer updates for a trained parameter: itself, its master weight, or those of a shard.
struct UpdatedParameter {
  std::string name;  // of the optimizer's state
  Tensor parameter, updated;
};

// The same parameter groups, of this process's shards. A shard is named by its parameter and first element: "name@1024". Shards
// in host memory and on a device are separate groups.
std::vector<optim::ParameterGroup> shard_param_groups(const std::vector<optim::ParameterGroup>& groups,
                                                      const parallel::ShardedModel& model);
// Throws UserError(usage) for an optimizer that needs full matrices, which no process has. Muon gathers them (MatrixShards).
void require_elementwise(const std::string& optimizer);

}  // namespace hone::train
