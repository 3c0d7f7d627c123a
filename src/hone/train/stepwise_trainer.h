// A training step in pieces, for user-written loops: forward and backward, clip, update, scheduler step. `Trainer`
// (loop/trainer.h) is hone's own loop; the components, and the results, are the same, also over several processes.
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
  // Prepares `model` for training. Each of several processes creates one and makes the same calls in the same order, with its own
  // rows: losses, gradients and norms are global. Throws UserError for float16 weights, whose losses are not scaled here.
  StepwiseTrainer(std::shared_ptr<model::CausalLM> model, const StepwiseConfig& config,
                  std::shared_ptr<const DistributedContext> processes = nullptr);

  // Adds the gradients of these micro-batches. However often it is called before an update, the gradient is that of the mean over
  // the items of all calls. The returned loss is the mean over the items of this call.
  StepResult forward_backward(const std::vector<data::Batch>& batches, Loss& loss);
  // log p(target) of every position at a temperature, float32 [T] with a gradient, for a custom loss. Processes that share a row
  // all get the same values; each has its part of the gradient.
  Tensor logps(const data::Batch& batch, double temperature);
  // The same without gradients and dropout.
  Tensor evaluated_logps(const data::Batch& batch, double temperature);
  // The same, and the experts of each token, chosen or replayed, int64 [T, layers with experts, k]: `Batch::routed_experts_tlk`
  // of a later pass takes them again (router replay). Not with pipeline stages.
  std::pair<Tensor, Tensor> routed_logps(const data::Batch& batch, double temperature);
  // The same of the base model under the trained adapter: a reference.
  Tensor base_logps(const data::Batch& batch, double temperature);
  // Logits of every position with a gradient, float32: of all tokens [T, V], or of those named for each position [T, K].
  Tensor logits(const data::Batch& batch, const Tensor& ids_tk = {});
  // Like forward_backward for a custom loss computed from `logps` or `logits`: a sum over `num_items`.
  void backward(const Tensor& loss_sum, double num_items);
  // Without gradients and dropout.
  StepResult evaluate(const std::vector<data::Batch>& batches, Loss& loss);

  // The norm before gradients are scaled down to `max_norm`; 0: no clipping.
  double clip_grad_norm(double max_norm);
  // Updates the weights, with the scheduler's learning rate unless another is given. False: a gradient is not finite, and nothing
  // changed. Throws UserError(usage) without gradients.
  bool step(std::optional<double> learning_rate = {});
  void zero_grad();
  void lr_step() { ++lr_steps_; }
  double learning_rate() const { return schedule_.learning_rate(lr_steps_); }
  int64_t global_step() const { return state_.global_step; }

  const tuner::Tuned& tuned() const { return models_.policy().tuned; }
  optim::NamedTensors optimizer_state() { return optimizer_->state(); }

  // Writes `folder`/checkpoint-STEP atomically: weights, optimizer, schedule, random states and, with a loader, its position.
  // Throws UserError(out_of_space) on failure.
  fs::path save(const fs::path& folder, const CheckpointAssets& assets, data::Loader* loader = nullptr);
  // Writes the trained weights and their assets into `folder` itself, as a model or adapter for other programs; not for
  // resuming.
  void save_weights(const fs::path& folder, const CheckpointAssets& assets);
  // Resumes from such a checkpoint, which is verified first. Throws UserError(bad_checkpoint).
  void load(const fs::path& checkpoint, data::Loader* loader = nullptr);

 private:
  data::Batch placed(const data::Batch& batch) const;  // what this process computes of it, on its device
  void begin_pass();                                   // of a loss that the caller computes
  void end_pass();                                     // after its backward pass
  // Applies `read` to the outputs of a pass, [T] or with `columns` [T, columns], at all positions of the batch.
  Tensor read_pass(const data::Batch& batch, std::optional<int64_t> columns,
                   const std::function<Tensor(const ForwardOutputs&)>& read);
  double count_items(double num_items);  // what a loss is multiplied by; `num_items` of this process
  void finish_gradients();               // afterwards they are the sums over all processes
  ResumableState resumable(data::Loader& position);
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
  double num_items_ = 0;             // in the gradients so far, of all processes
  bool finished_ = false;            // the gradients are those of all processes
  bool pass_begun_ = false;          // and its loss is not here yet
  std::optional<double> grad_norm_;  // of the gradients as they are; none: not known
};

}  // namespace hone::train
