// Pipeline parallel training, with or without data and tensor parallelism: the strategy for the trainer, and the files of a model
// whose blocks are on several processes.
#pragma once
#include <set>

#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/train/distributed/pipeline_schedule.h"
#include "hone/train/distributed/tensor_data_parallel.h"

namespace hone::train {

// The stages of one replica, for evaluations that each replica runs independently.
class PipelineStages : public MultiProcess {
 public:
  PipelineStages(parallel::PipelineModel& stages, PipelineSchedule& schedule)
      : MultiProcess(stages.stages()), stages_(stages), schedule_(schedule) {}
  bool counts_rows() const override { return stages_.is_last(); }
  PipelineSchedule* pipeline() override { return &schedule_; }

 private:
  parallel::PipelineModel& stages_;
  PipelineSchedule& schedule_;
};

class PipelineParallel final : public MultiProcess {
 public:
  // A model that trains.
  struct Trained {
    parallel::PipelineModel& stages;
    PipelineSchedule& schedule;
    parallel::TensorParallelModel* tensor;     // null without tensor parallelism
    std::vector<UpdatedParameter> parameters;  // of this stage
  };
  // `copies` sums or shards the gradients of one stage over the ranks that hold the same shards of its blocks; `losses` is the
  // group of the last stages, null on others. The first of `models` is the one that generates, the second a value model.
  PipelineParallel(parallel::ProcessGroup& processes, std::unique_ptr<ParallelStrategy> copies,
                   std::unique_ptr<ParallelStrategy> losses, std::vector<Trained> models);

  void before_micro_batch(bool last) override { copies_->before_micro_batch(last); }
  void after_micro_batch() override { copies_->after_micro_batch(); }
  void finish_gradients() override;
  Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) override;
  void after_update() override { copies_->after_update(); }
  bool owns_state() const override { return copies_->owns_state(); }
  bool owns_state_of(const std::string& name) const override;
  bool counts_rows() const override { return policy().stages.is_last() && copies_->counts_rows(); }
  ParallelStrategy* loss_group() override { return losses_.get(); }
  void keep_gathered(bool hold) override {
    if (hold) copies_->keep_gathered(true);  // tensor parallel shards of a stage first, then the stages
    policy().stages.keep_gathered(hold);
    if (!hold) copies_->keep_gathered(false);
  }
  // Every rank has its tensor parallel shards of all stages.
  void keep_for_generation(bool hold) override {
    if (hold) copies_->keep_for_generation(true);
    policy().stages.keep_gathered(hold);
    if (!hold) copies_->keep_for_generation(false);
  }
  parallel::ProcessGroup* generation_group() override { return copies_->generation_group(); }
  PipelineSchedule* pipeline() override { return &policy().schedule; }
  PipelineSchedule* value_pipeline() override { return models_.size() > 1 ? &models_[1].schedule : nullptr; }

 private:
  const Trained& policy() const { return models_.front(); }
  Tensor squared_norm(const Trained& trained);

  std::unique_ptr<ParallelStrategy> copies_, losses_;
  std::vector<Trained> models_;
  std::set<std::string> others_;  // names that another stage owns
};

// The first process writes; `senders` are the ranks with the stages of its replica, in order.
WeightFiles pipeline_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::PipelineModel& stages,
                           parallel::TensorParallelModel* tensor, parallel::ProcessGroup& processes,
                           const std::vector<int>& senders, const CheckpointAssets& assets, size_t max_shard_bytes);

}  // namespace hone::train
