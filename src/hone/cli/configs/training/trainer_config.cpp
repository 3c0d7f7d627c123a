#include "hone/cli/configs/training/trainer_config.h"

#include "hone/base/error.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/tracker_config.h"
#include "hone/parallel/launch/rank_files.h"

namespace hone::cli {
namespace {

using train::IntervalStrategy;
using train::TrainerConfig;

IntervalStrategy every(const std::string& text) {
  return text == "no"      ? IntervalStrategy::never
         : text == "epoch" ? IntervalStrategy::epoch
         : text == "best"  ? IntervalStrategy::best
                           : IntervalStrategy::steps;
}

// Whether passes are captured as graphs, according to torch.compile's settings.
bool uses_cuda_graphs(const TrainingArguments& args) {
  const auto backend = args.torch_compile_backend.value_or(""), mode = args.torch_compile_mode.value_or("");
  const bool captures = backend == "cudagraphs" || mode == "reduce-overhead" || mode == "max-autotune";
  const bool captures_none = backend == "eager" || backend == "aot_eager" || mode == "max-autotune-no-cudagraphs";
  const bool own = args.training_graphs.is_set();
  if ((captures && captures_none) || (own && (*args.training_graphs ? captures_none : captures)))
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} and {} {} disagree about graphs{}", args.torch_compile_backend.flag(), backend,
                                args.torch_compile_mode.flag(), mode,
                                own ? fmt::format(", with {} {}", args.training_graphs.flag(), *args.training_graphs) : ""),
                    "leave all but one of them out");
  return captures || (*args.training_graphs && !captures_none);
}

void read_length(const Options& options, TrainerConfig& config) {
  const TrainingArguments training_args(options);
  const TunerArguments tuner_args(options);
  config.epochs = *training_args.num_train_epochs;
  if (training_args.max_epochs.has_value()) config.max_epochs = *training_args.max_epochs;
  config.max_steps = *training_args.max_steps;
  config.gradient_accumulation_steps = *training_args.gradient_accumulation_steps;
  config.micro_batch_size = *training_args.per_device_train_batch_size;
  config.find_batch_size = *training_args.auto_find_batch_size;
  config.max_grad_norm = *training_args.max_grad_norm;
  config.seed = static_cast<uint64_t>(*ModelArguments(options).seed);
  config.use_cuda_graphs = uses_cuda_graphs(training_args);
  if (tuner_args.lisa_activated_layers.exists() && *tuner_args.lisa_activated_layers > 0)
    config.layer_sampling = {*tuner_args.lisa_activated_layers, *tuner_args.lisa_step_interval};
  bool stops = *training_args.non_finite == "stop" || training_args.debug->find("underflow_overflow") != std::string::npos;
  config.on_non_finite = stops ? train::NonFinite::stop : train::NonFinite::skip;
  auto spike = *training_args.loss_spike;
  config.on_spike = spike == "stop" ? train::Spike::stop : spike == "skip" ? train::Spike::skip : train::Spike::warn;
  config.spike_sigmas = *training_args.loss_spike_sigmas;
}

void read_moments(const Options& options, TrainerConfig& config) {
  const OutputArguments output_args(options);
  const TrainingArguments training_args(options);
  config.logging = every(*output_args.logging_strategy);
  config.logging_steps = *output_args.logging_strategy == "no" ? 0 : *output_args.logging_steps;
  config.log_short_runs =
      config.logging_steps > 0 && !output_args.logging_steps.is_set() && !output_args.logging_strategy.is_set();
  config.logging_first_step = *output_args.logging_first_step;
  config.save = every(*output_args.save_strategy);
  config.save_steps = *output_args.save_steps;
  if (auto limit = output_args.save_total_limit.optional(); limit && *limit > 0) config.save_total_limit = limit;
  config.save_only_model = *output_args.save_only_model;
  config.async_save = *training_args.async_save;
  const GenerationArguments generation_args(options);
  config.merge_lora = generation_args.merge_lora.exists() && *generation_args.merge_lora;
  config.eval = every(*training_args.eval_strategy);
  config.eval_steps = *training_args.eval_steps;
  config.eval_on_start = *training_args.eval_on_start;
  config.eval_delay = *training_args.eval_delay;
  if (training_args.eval_iters.exists()) config.eval_iters = training_args.eval_iters.value_or(0);
  config.eval_loss_only = *training_args.prediction_loss_only;
  if (training_args.torch_empty_cache_steps.has_value()) config.empty_cache_steps = *training_args.torch_empty_cache_steps;
  config.metric_for_best_model = *training_args.metric_for_best_model;
  bool one_by_one = *DataArguments(options).eval_on_each_dataset;
  if (one_by_one && !training_args.metric_for_best_model.is_set())
    config.metric_for_best_model.clear();  // there is no overall eval_loss
  if (training_args.greater_is_better.has_value()) config.greater_is_better = *training_args.greater_is_better;
  config.load_best_model_at_end = *training_args.load_best_model_at_end;
  if (training_args.early_stop_interval.has_value()) config.early_stop_patience = *training_args.early_stop_interval;
}

}  // namespace

TrainerConfig trainer_config(const Options& options) {
  TrainerConfig config;
  read_length(options, config);
  read_moments(options, config);
  return config;
}

void read_profiler(const ProfilerArguments& args, TrainerConfig& config) {
  config.profile_modules = *args.profile_modules;
  if (!args.enable_torch_profiler) return;
  auto& profiler = config.profiler.emplace();
  profiler.wait = *args.profiler_wait_steps;
  profiler.warmup = *args.profiler_warmup_steps;
  profiler.active = *args.profiler_active_steps;
  profiler.repeat = *args.profiler_repeat;
  profiler.shapes = *args.profiler_record_shapes;
  profiler.memory = *args.profiler_profile_memory;
  profiler.stack = *args.profiler_with_stack;
  if (args.profiler_output_dir.has_value()) profiler.folder = *args.profiler_output_dir;
}

bool has_validation_data(const Options& options) {
  const DataArguments data_args(options);
  return data_args.val_dataset.has_value() || data_args.cached_val_dataset.has_value() || *data_args.split_dataset_ratio > 0 ||
         *TrainingArguments(options).eval_use_evalscope;
}

void read_output(const Options& options, const fs::path& model, TrainerConfig& config) {
  const OutputArguments output_args(options);
  const TrainingArguments training_args(options);
  bool factory = uses_factory_dialect(options);
  config.layout = factory ? train::Layout::factory : train::Layout::swift;
  if (output_args.output_dir.has_value())
    config.output_dir = *output_args.output_dir;
  else if (factory)
    config.output_dir = output_args.output_dir.required();
  else
    config.output_dir = fs::path("output") / fs::weakly_canonical(model).filename();
  config.add_version = !factory && *output_args.add_version;
  config.overwrite_output_dir = *output_args.overwrite_output_dir;
  config.checkpoint_links = *output_args.create_checkpoint_symlink;
  read_trackers(options, config);
  if (output_args.logging_dir.has_value()) config.logging_dir = *output_args.logging_dir;
  config.plot_loss = *output_args.plot_loss;
  config.progress_bar = !output_args.disable_tqdm;
  config.report_token_rate = *output_args.include_tokens_per_second;
  config.report_effective_rate = *output_args.include_effective_tokens_per_second;
  config.count_tokens =
      *output_args.include_num_input_tokens_seen != "no" && *output_args.include_num_input_tokens_seen != "false";
  if (training_args.resume_from_checkpoint.has_value()) config.resume_from_checkpoint = *training_args.resume_from_checkpoint;
  config.auto_resume = factory && !config.overwrite_output_dir && !config.resume_from_checkpoint;
  config.resume_only_model = *training_args.resume_only_model;
  config.ignore_data_skip = *training_args.ignore_data_skip;
  config.continue_run = parallel::run_dir_to_resume();
}

}  // namespace hone::cli
