// A training step in pieces, for loops that somebody else writes: forward and backward, clip, update, next rate. `Trainer`
// (loop/trainer.h) is the loop of this program; the parts are the same, and so are the numbers, also over several processes.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hone/optim/factory.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/param_groups.h"
#include "hone/train/loaded_model.h"
#include "hone/train/loop/precision.h"
#include "hone/train/loop/step_metrics.h"

namespace hone::train {

struct StepwiseConfig {
  tuner::TunerConfig tuner;
  optim::OptimizerConfig optimizer;
  optim::ParamGroupConfig groups;
  optim::LrSchedulerConfig schedule;  // with the number of steps
  bool gradient_checkpointing = true;
  bool master_weights = false;  // half-precision weights that train get float32 masters
  uint64_t seed = 42;
  ParallelConfig parallel;  // that the processes joined with
};

class StepwiseTrainer {
 public:
  // Attaches what trains to `model`. Several processes make one each and call the same in the same order, with rows of their own:
  // losses, gradients and norms are those of all of them. Throws UserError for float16 weights, whose losses are not scaled here.
  StepwiseTrainer(std::shared_ptr<model::CausalLM> model, const StepwiseConfig& config,
                  std::shared_ptr<const DistributedContext> processes = nullptr);

  // Adds the gradients of these micro-batches. However often it is called before an update, the gradient is that of the mean
  // over the items of all calls. The result's loss is the mean over the items of this one.
  StepResult forward_backward(const std::vector<data::Batch>& batches, Loss& loss);
  // log p(target) of every position at a temperature, float32 [T] with a gradient, for a loss of the caller's own. Processes that
  // compute a row together all get the same; each has its part of the gradient.
  Tensor logps(const data::Batch& batch, double temperature);
  // The same without gradients and dropout.
  Tensor evaluated_logps(const data::Batch& batch, double temperature);
  // And of the model beneath the adapter that trains: what a reference says.
  Tensor base_logps(const data::Batch& batch, double temperature);
  // Logits of every position with a gradient, float32: of all tokens [T, V], or of those named for each position [T, K].
  Tensor logits(const data::Batch& batch, const Tensor& ids_tk = {});
  // The same as forward_backward of a loss that the caller computed out of `logps` or `logits`: a sum over `num_items`.
  void backward(const Tensor& loss_sum, double num_items);
  // Without gradients and dropout.
  StepResult evaluate(const std::vector<data::Batch>& batches, Loss& loss);

  // The norm before gradients are scaled down to `max_norm`; 0: they stay as they are.
  double clip_grad_norm(double max_norm);
  // Updates the weights, by the schedule's rate unless another is given. False: a gradient is not finite, and nothing changed.
  // Throws UserError(usage) where there are no gradients.
  bool step(std::optional<double> learning_rate = {});
  void zero_grad();
  void lr_step() { ++lr_steps_; }
  double learning_rate() const { return schedule_.learning_rate(lr_steps_); }
  int64_t global_step() const { return state_.global_step; }

  const tuner::Tuned& tuned() const { return models_.policy().tuned; }
  optim::NamedTensors optimizer_state() { return optimizer_->state(); }

  // Writes `folder`/checkpoint-STEP whole or not at all: weights, optimizer, rates, random states and, with a loader, its
  // position. Throws UserError(out_of_space) where it could not.
  fs::path save(const fs::path& folder, const CheckpointAssets& assets, data::Loader* loader = nullptr);
  // Writes what trains and what goes with it into `folder` itself, as a model or adapter that others read; nothing to continue
  // from.
  void save_weights(const fs::path& folder, const CheckpointAssets& assets);
  // Continues from such a checkpoint, which is verified first. Throws UserError(bad_checkpoint).
  void load(const fs::path& checkpoint, data::Loader* loader = nullptr);

 private:
  data::Batch placed(const data::Batch& batch) const;  // what this process computes of it, on its device
  void begin_pass();                                   // of a loss that the caller computes
  // What `read` makes of a pass, [T] or with `columns` [T, columns], of all positions of the batch.
  Tensor read_pass(const data::Batch& batch, std::optional<int64_t> columns,
                   const std::function<Tensor(const ForwardOutputs&)>& read);
  double count_items(double num_items);  // what a loss is multiplied by; `num_items` of this process
  void finish_gradients();               // afterwards they are the sums over all processes
  ResumableParts resumable(data::Loader& position);
  model::CausalLM& model() const { return *models_.policy().model; }

  TrainingJob job_;
  std::shared_ptr<const DistributedContext> processes_;
  SessionModels models_;
  MasterWeights masters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<ParallelStrategy> strategy_;
  optim::LrScheduler schedule_;
  GradScaler scale_{false};
  TrainState state_;
  int64_t lr_steps_ = 0;
  double num_items_ = 0;             // behind the gradients so far, of all processes
  bool finished_ = false;            // the gradients are those of all processes
  bool pass_begun_ = false;          // and its loss is not here yet
  std::optional<double> grad_norm_;  // of the gradients as they are; none: not known
};

}  // namespace hone::train
