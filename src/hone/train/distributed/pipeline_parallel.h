// Pipeline parallel training, in several data parallel copies or one, of layers that are whole or cut: the processes as the
// trainer sees them, and the files of a model whose blocks are on several of them.
#pragma once
#include <set>

#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/train/distributed/pipeline_schedule.h"
#include "hone/train/distributed/tensor_data_parallel.h"

namespace hone::train {

// The stages of one copy alone, for evaluations that each copy makes by itself.
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
  // `copies` sums the gradients of one stage over whoever holds the same blocks, or parts of them, or shards them; `tensor` is
  // null where layers are whole; `losses` joins those that have last stages, and is null on others. `parameters` are those of
  // this stage.
  PipelineParallel(parallel::ProcessGroup& processes, std::unique_ptr<ParallelStrategy> copies,
                   std::unique_ptr<ParallelStrategy> losses, parallel::PipelineModel& stages, PipelineSchedule& schedule,
                   parallel::TensorParallelModel* tensor, std::vector<UpdatedParameter> parameters);

  void before_micro_batch(bool last) override { copies_->before_micro_batch(last); }
  void after_micro_batch() override { copies_->after_micro_batch(); }
  void finish_gradients() override;
  Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) override;
  void after_update() override { copies_->after_update(); }
  bool owns_state() const override { return copies_->owns_state(); }
  bool owns_state_of(const std::string& name) const override;
  bool counts_rows() const override { return stages_.is_last() && copies_->counts_rows(); }
  ParallelStrategy* loss_group() override { return losses_.get(); }
  void keep_gathered(bool hold) override {
    if (hold) copies_->keep_gathered(true);  // whole layers of a stage first, then the stages
    stages_.keep_gathered(hold);
    if (!hold) copies_->keep_gathered(false);
  }
  PipelineSchedule* pipeline() override { return &schedule_; }

 private:
  Tensor squared_norm();

  std::unique_ptr<ParallelStrategy> copies_, losses_;
  parallel::PipelineModel& stages_;
  PipelineSchedule& schedule_;
  parallel::TensorParallelModel* tensor_;
  std::vector<UpdatedParameter> parameters_;
  std::set<std::string> others_;  // names that another stage speaks for
};

// The first of all processes writes; `senders` are those that have the stages of its part, in order.
WeightFiles pipeline_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::PipelineModel& stages,
                           parallel::TensorParallelModel* tensor, parallel::ProcessGroup& processes,
                           const std::vector<int>& senders, const CheckpointAssets& companions, size_t max_shard_bytes);

}  // namespace hone::train
