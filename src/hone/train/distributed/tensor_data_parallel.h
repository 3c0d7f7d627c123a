// Tensor and expert parallel training, in several data parallel copies or one: the processes as the trainer sees them, and the
// files of a model whose layers are cut or whose experts are dealt out.
#pragma once
#include <set>

#include "hone/parallel/tensor_parallel/tensor_parallel_model.h"
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/distributed/data_parallel.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

class TensorDataParallel final : public MultiProcess {
 public:
  // The processes that hold the same parts of layers, and of experts in their own grid; null: there are no others.
  struct Copies {
    parallel::ProcessGroup* layers = nullptr;
    parallel::ProcessGroup* experts = nullptr;
  };
  // `parameters` in the order of the forward pass, with what the optimizer updates for each; `groups` has their names.
  TensorDataParallel(parallel::ProcessGroup& processes, Copies copies, parallel::TensorParallelModel& model,
                     std::vector<parallel::GradientBuckets::Parameter> parameters,
                     const std::vector<optim::ParameterGroup>& groups, int64_t bucket_bytes);

  double seconds_waited() const override;
  int64_t bytes_sent() const override;
  void before_micro_batch(bool last) override;
  void finish_gradients() override;
  Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) override;
  bool owns_state() const override {
    return model_.groups().is_first_copy || (model_.groups().deals_experts() && model_.groups().is_first_expert_copy);
  }
  bool owns_state_of(const std::string& name) const override;
  void keep_gathered(bool hold) override { model_.keep_gathered(hold); }
  bool counts_rows() const override { return !model_.groups().tensor || model_.groups().tensor->rank() == 0; }

 private:
  std::vector<parallel::TensorParallelModel::Gradient> gradients() const;

  std::vector<parallel::ProcessGroup*> groups_;  // all but the world, for accounts of time and bytes
  parallel::TensorParallelModel& model_;
  std::vector<parallel::GradientBuckets::Parameter> parameters_;
  std::vector<std::unique_ptr<parallel::GradientBuckets>> buckets_;  // of layers, of experts; none where there is one copy
  std::set<std::string> others_;                                     // names that another rank speaks for
};

// A parameter of which a part is here is called after it and the elements of the whole that the part is: "name@1024:64:256".
void name_parts(std::vector<optim::ParameterGroup>& groups, const parallel::TensorParallelModel& model);

WeightFiles tensor_parallel_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::TensorParallelModel& parts,
                                  const CheckpointAssets& companions, size_t max_shard_bytes, bool main);

}  // namespace hone::train
