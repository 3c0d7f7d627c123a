// Settings of the training loop. Front ends provide their own defaults.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/train/loop/profiler.h"
#include "hone/train/reports/swanlab.h"

namespace hone::train {

enum class Layout { swift, factory };                       // whose output folder: ms-swift's or LLaMA-Factory's
enum class IntervalStrategy { never, steps, epoch, best };  // best: after an evaluation that was better than all before
enum class NonFinite { skip, stop };
enum class Spike { warn, skip, stop };
enum class Precision { float32, bfloat16, float16 };

// LISA, see layer_sampling.h.
struct LayerSamplingConfig {
  int64_t layers = 0;     // trained at a time
  int64_t interval = 20;  // steps until others are drawn
};

struct TrainerConfig {
  // Duration. max_steps > 0 takes precedence over epochs; a stream of unknown length needs it.
  double epochs = 3;
  int64_t max_steps = -1;
  std::optional<double> max_epochs;  // ends the run early, also with a stream; the LR schedule ignores it
  int64_t gradient_accumulation_steps = 1;
  int64_t micro_batch_size = 1;  // per_device_train_batch_size, as trainer_state.json reports it
  bool find_batch_size = false;  // halve it and begin again when memory runs out
  double max_grad_norm = 1.0;    // 0: no clipping
  uint64_t seed = 42;
  bool use_cuda_graphs = true;  // passes of small models are captured and replayed, where the device can

  // Precision. Without `no_master_weights`, trained half-precision weights get float32 master weights; float16 uses loss scaling.
  Precision precision = Precision::float32;
  bool no_master_weights = false;
  std::optional<LayerSamplingConfig> layer_sampling;
  NonFinite on_non_finite = NonFinite::skip;
  int64_t max_skips_in_a_row = 10;
  Spike on_spike = Spike::warn;
  double spike_sigmas = 20;  // a spike is a loss this many standard deviations above the recent ones; 0: none is

  // Intervals. Values in (0, 1) are fractions of all steps.
  IntervalStrategy logging = IntervalStrategy::steps;
  double logging_steps = 5;     // 0: never
  bool log_short_runs = false;  // no interval was given: a run of few steps logs each of them
  bool logging_first_step = true;
  IntervalStrategy save = IntervalStrategy::steps;
  double save_steps = 500;
  std::optional<int64_t> save_total_limit;
  bool save_only_model = false;
  bool async_save = false;  // checkpoints are copied and written while training continues
  bool merge_lora = false;  // each save of an adapter also writes the full model
  IntervalStrategy eval = IntervalStrategy::never;
  double eval_steps = 500;
  double eval_delay = 0;   // steps before the first evaluation, or epochs when it happens by epoch
  int64_t eval_iters = 0;  // an evaluation reads the batches of that many updates; 0: the full validation set
  bool eval_on_start = false;
  bool eval_loss_only = false;
  std::optional<int64_t> empty_cache_steps;  // memory that is held and unused goes back to the system so often

  // The best model.
  std::string metric_for_best_model = "loss";  // empty: no evaluation is called the best
  std::optional<bool> greater_is_better;       // unset: lower is better for losses, higher for everything else
  bool load_best_model_at_end = false;
  std::optional<int64_t> early_stop_patience;
  double early_stop_threshold = 0;

  // Output.
  Layout layout = Layout::swift;
  fs::path output_dir = "output";
  bool add_version = true;             // ms-swift: a folder vN-date inside output_dir
  bool overwrite_output_dir = false;   // LLaMA-Factory: starts from scratch although checkpoints are there
  bool checkpoint_links = false;       // `last` and `best` next to the checkpoints
  std::vector<std::string> report_to;  // "tensorboard"; others are named once as not available
  fs::path logging_dir;                // empty: runs/ in the run folder
  fs::path run_name;                   // the folder of the event files there, which is what TensorBoard calls a run
  SwanlabConfig swanlab;
  bool plot_loss = true;
  bool count_tokens = false;  // include_num_input_tokens_seen
  bool progress_bar = true;
  std::optional<ProfilerConfig> profiler;
  std::vector<std::string> profile_modules;  // patterns of paths of modules whose times are logged
  bool report_token_rate = false;            // train_tokens_per_second among the results
  bool report_effective_rate = false;        // LLaMA-Factory's effective_tokens_per_sec, per process

  // Resuming.
  std::optional<fs::path> resume_from_checkpoint;
  bool auto_resume = false;              // LLaMA-Factory: the newest whole checkpoint in output_dir
  std::optional<fs::path> continue_run;  // a restarted process continues in the folder of the attempt before
  bool resume_only_model = false;
  bool ignore_data_skip = false;
};

}  // namespace hone::train
