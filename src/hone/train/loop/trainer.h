// The training loop: batches in, weights out. Methods differ in their loss, tuners in their parameters; the loop is the same.
#pragma once
#include <functional>
#include <memory>

#include "hone/base/progress.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/distributed/straggler_detector.h"
#include "hone/train/evaluation/evaluate.h"
#include "hone/train/loop/layer_sampling.h"
#include "hone/train/loop/micro_batches.h"
#include "hone/train/loop/module_profiler.h"
#include "hone/train/loop/pass_graphs.h"
#include "hone/train/loop/step_counts.h"
#include "hone/train/loop/step_metrics.h"
#include "hone/train/loop/update_check.h"
#include "hone/train/methods/loss.h"
#include "hone/train/reports/run_log.h"

namespace hone::train {

// An evaluation set and the names of its metrics: eval_loss, or eval_NAME_loss.
struct EvaluationSet {
  std::string prefix;
  std::function<std::unique_ptr<data::Loader>()> loader;
};

// The trainer's dependencies, which it does not own.
struct TrainerDeps {
  model::CausalLM& model;
  Loss& loss;
  data::Loader& loader;
  optim::Optimizer& optimizer;
  optim::LrScheduler& lr_scheduler;
  MasterWeights& masters;
  ParallelStrategy& strategy;
  ParallelStrategy& save_group;  // the same processes, or a second group of them for saves written while training continues
  WeightFiles weights;
  std::vector<EvaluationSet> evaluations;            // none: no evaluation
  Predict predict;                                   // empty: no generation in evaluations
  std::function<Json(int64_t step)> benchmark;       // on the first process, in evaluations; empty: none
  std::function<std::string(int64_t row)> row_name;  // "train.jsonl:12", for reports about a batch
  double flops_per_token = 0;
  const parallel::SequenceParallel* sequence = nullptr;                           // null: every sequence is on one process
  std::function<void(const fs::path& checkpoint, int64_t step)> after_save = {};  // called on the first process
  std::function<void(int64_t step)> after_update = {};                            // called on every process
  const NodeReplicator* replicator = nullptr;                                     // null: one folder for all nodes
  TensorList trained = {};  // parameters that get gradients; empty unless each pass can be captured and replayed
};

// How training ended.
enum class Outcome { finished, early_stopped, preempted, interrupted };

// Runs the steps of one training run; logs, evaluates and saves when due.
class Trainer {
 public:
  Trainer(const TrainerConfig& config, const RunFolder& run, TrainerDeps deps);

  void resume(const fs::path& checkpoint);
  // Trains until the last step, a signal or early stopping.
  Outcome train();

  const TrainState& state() const { return state_; }
  Json results() const { return results_; }  // train_loss, train_runtime … after train()

 private:
  Outcome run_step(RunLog& log, ProgressBar* bar);  // finished: training may continue
  void save_before_exit();
  Outcome stop_now();
  std::vector<data::Batch> next_batches();
  struct StepTotals {  // over all processes
    double num_items, tokens, samples;
  };
  StepTotals all_reduce_counts(const std::vector<data::Batch>& batches);
  void step(RunLog& log, ProgressBar* bar);
  void run_micro_batches(const std::vector<data::Batch>& batches, double num_items, StepMetrics& metrics);
  void run_pipelines(const std::vector<data::Batch>& batches, double num_items, StepMetrics& metrics);
  LossSum forward_backward(const data::Batch& batch, double factor);
  MicroBatchHooks micro_batch_hooks(double num_items, bool ends_update);
  double loss_factor(double num_items) const;
  void update(StepMetrics& metrics, double num_items, std::vector<data::Batch> batches);
  bool updates_before_reading() const;
  void report_step(RunLog& log, ProgressBar* bar);
  bool accept(const StepResult& result, int64_t step, const std::vector<data::Batch>& batches);
  void after_step(RunLog& log);
  bool logs_now() const;
  void log_window(RunLog& log);
  std::string progress_note(const StepResult& result, double seconds) const;
  void evaluate_now(RunLog& log);
  Json measure(RunLog& log);
  void run_benchmark(RunLog& log);
  void update_best_metric(const Json& metrics);
  bool saves_now() const;
  void save_now();
  void wait_for_save();
  void finish_saving();
  bool evaluates_now() const;
  bool stop_early() const;
  void finish(RunLog& log);
  void load_best();

  // A step whose result is not reported yet. If the device itself decides whether to apply the update, its numbers are read
  // after the next step's passes are launched, so that the device never waits for the host.
  struct PendingStep {
    int64_t number;
    double learning_rate;
    StepReading reading;
    std::optional<StepResult> result;  // none: still on the device
    std::vector<data::Batch> batches;
  };

  const TrainerConfig& config_;
  const RunFolder& run_;
  TrainerDeps deps_;
  at::Device device_;
  StepCounts counts_;
  GradScaler grad_scaler_;
  PassGraphs graphs_;
  CheckpointManager checkpoint_manager_;
  UpdateCheck update_check_;
  TrainState state_;
  std::optional<PendingStep> pending_;
  bool stop_requested_ = false;  // on any process: all of them save the same step
  LogAccumulator window_;
  StragglerDetector stragglers_;
  int64_t sent_ = 0;     // bytes that this process sent in its steps
  double computed_ = 0;  // seconds of the last step, without waiting for other processes
  int64_t last_evaluated_ = -1;
  TrainState resumed_;  // where this process began: rates are of its own work
  Json results_;
  std::optional<StepProfiler> profiler_;
  std::optional<ModuleProfiler> module_profiler_;
  std::optional<LayerSampling> layer_sampling_;
};

}  // namespace hone::train
