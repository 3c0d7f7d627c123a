// Tensor and expert parallel training, with or without data parallelism: the strategy for the trainer, and the files of a model
// with sharded layers or distributed experts.
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
  // A model that trains, and its parameters.
  struct Trained {
    parallel::TensorParallelModel& model;
    std::vector<UpdatedParameter> parameters;

    std::vector<parallel::TensorParallelModel::Gradient> gradients() const;
  };
  // `copies` sums or shards gradients over the processes that hold the same shards of layers, and of experts on their own mesh.
  // The first of `models` is the one that generates.
  TensorDataParallel(parallel::ProcessGroup& processes, std::unique_ptr<ParallelStrategy> copies, std::vector<Trained> models);

  void before_micro_batch(bool last) override { copies_->before_micro_batch(last); }
  void after_micro_batch() override { copies_->after_micro_batch(); }
  void finish_gradients() override;
  Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) override;
  void after_update() override { copies_->after_update(); }
  bool owns_state() const override;
  bool owns_state_of(const std::string& name) const override;
  void keep_gathered(bool hold) override;
  void keep_for_generation(bool hold) override;
  parallel::ProcessGroup* generation_group() override { return groups().tensor; }
  bool counts_rows() const override { return !groups().tensor || groups().tensor->rank() == 0; }

 private:
  const parallel::ModelGroups& groups() const { return models_.front().model.groups(); }

  std::unique_ptr<ParallelStrategy> copies_;
  std::vector<Trained> models_;
  std::set<std::string> others_;  // names that another rank owns
};

// A tensor parallel shard is named by its parameter and the elements it holds: "name@1024:64:256". An optimizer shard of it is
// "name@1024:64:256@4096", from its 4096th element on.
void name_parts(std::vector<optim::ParameterGroup>& groups, const parallel::TensorParallelModel& model);

WeightFiles tensor_parallel_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::TensorParallelModel& parts,
                                  const CheckpointAssets& assets, size_t max_shard_bytes, bool main);

}  // namespace hone::train
