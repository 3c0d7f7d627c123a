#include "hone/cli/configs/training/training_config.h"
#include "hone/cli/configs/training/benchmark_config.h"

#include <charconv>

#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/hub_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/compute_config.h"
#include "hone/cli/configs/training/loss_scale_plugins.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/tracker_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/data/batches/make_loader.h"
#include "hone/device/device.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"
#include "hone/parallel/launch/rank_files.h"
#include "hone/train/rl/servers/rollout_client.h"
#include "hone/train/validate.h"

namespace hone::cli {
namespace {

using train::IntervalStrategy;
using train::Precision;
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

void read_places(const Options& options, const fs::path& model, TrainerConfig& config) {
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

}  // namespace

// ms-swift updates half-precision weights directly; LLaMA-Factory keeps float32 master weights unless an option says otherwise.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job) {
  const TrainingArguments args(options);
  bool factory = uses_factory_dialect(options);
  bool bf16 = *args.bf16, fp16 = *args.fp16;
  if (!bf16 && !fp16) bf16 = launched_precision(options) == "bf16", fp16 = launched_precision(options) == "fp16";
  const bool pure_fp16 = fp16 && *args.fp16_opt_level == "O3";
  fp16 = fp16 && *args.fp16_opt_level != "O0";
  job.load.dtype = dtype_option(ModelArguments(options).torch_dtype);
  bool pure_bf16 = *args.pure_bf16;
  if (pure_bf16) job.load.dtype = at::kBFloat16;
  if (pure_fp16) job.load.dtype = at::kHalf;
  bool whole = job.tuner.kind != tuner::TunerType::adapter;
  if (!whole && !job.load.dtype && (bf16 || fp16)) job.load.dtype = fp16 ? at::kHalf : at::kBFloat16;
  if (whole && fp16) job.load.dtype = at::kHalf;  // computed in float16, updated in float32
  if (factory && whole && !bf16 && !fp16 && !pure_bf16 && !job.load.dtype) job.load.dtype = at::kFloat;
  auto type = job.load.dtype.value_or(stored);
  if ((fp16 && type != at::kHalf) || (bf16 && type != at::kBFloat16))
    log::warning("{}: the weights are {} and are computed with as they are; {} {} changes that",
                 (fp16 ? args.fp16 : args.bf16).flag(),
                 type == at::kHalf       ? "float16"
                 : type == at::kBFloat16 ? "bfloat16"
                                         : "float32",
                 ModelArguments(options).torch_dtype.flag(), fp16 ? "float16" : "bfloat16");
  bool half = type == at::kHalf || fp16, brain = type == at::kBFloat16 || bf16;
  job.trainer.precision = half ? Precision::float16 : brain ? Precision::bfloat16 : Precision::float32;
  bool block_wise = job.optimizer.name == "badam";  // which keeps float32 copies of one block itself
  job.trainer.no_master_weights = pure_bf16 || pure_fp16 || block_wise || (!factory && type == at::kBFloat16);
}

namespace {

// A memory budget alone decides what is recomputed, so other recompute options are rejected.
void read_budget(const TrainingArguments& args, train::TrainingJob& job) {
  const auto& budget = args.activation_memory_budget;
  if (!budget.has_value()) return;
  job.activation_checkpointing.memory_budget = *budget;
  const std::vector<AnyArg> others{args.recompute_granularity, args.recompute_modules, args.recompute_num_layers,
                                   args.recompute_layers};
  for (const auto& other : others)
    if (other.is_set())
      throw UserError(ExitCode::usage, fmt::format("{} and {} exclude each other", budget.flag(), other.flag()),
                      "a budget chooses which parts of which blocks are recomputed");
  if (args.gradient_checkpointing.is_set() && !*args.gradient_checkpointing && *budget < 1)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} recomputes, and {} is off", budget.flag(), *budget, args.gradient_checkpointing.flag()),
                    fmt::format("leave out one of the two; {} 1 keeps everything", budget.flag()));
}

// Which blocks, or which part of each, activation checkpointing recomputes.
void read_recompute(const Options& options, int64_t layers, train::TrainingJob& job) {
  const TrainingArguments args(options);
  auto& config = job.activation_checkpointing;
  config.enabled = *args.gradient_checkpointing;
  read_budget(args, job);
  if (args.tower_cache.has_value())
    job.tower_cache = {*args.tower_cache, static_cast<size_t>(*args.tower_cache_size * static_cast<double>(size_t{1} << 30))};
  if (uses_factory_dialect(options)) {
    config.offload = *ModelArguments(options).use_unsloth_gc;
    return;
  }
  if (args.vit_gradient_checkpointing.has_value()) config.towers = *args.vit_gradient_checkpointing;
  auto granularity = *args.recompute_granularity;
  if (granularity == "none") config.what = model::Recompute::none;
  if (granularity == "selective")
    config.what = *args.recompute_modules == "mlp" ? model::Recompute::mlp : model::Recompute::attention;
  if (args.recompute_num_layers.has_value())
    for (int64_t i = 0; i < std::min(layers, *args.recompute_num_layers); ++i) config.blocks.push_back(i);
  for (const auto& text : *args.recompute_layers) {
    int64_t block = -1;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
    if (error != std::errc() || end != text.data() + text.size() || block < 0 || block >= layers)
      throw UserError(ExitCode::usage, fmt::format("{} names block \"{}\"", args.recompute_layers.flag(), text),
                      fmt::format("the model has blocks 0 to {}", layers - 1));
    config.blocks.push_back(block);
  }
}

data::Packing packing_of(const DataArguments& args, bool pretraining) {
  bool factory = args.uses_factory_dialect();
  bool neat = *args.neat_packing;
  if (!args.packing && !neat) return data::Packing::none;
  if (factory) return pretraining ? data::Packing::blocks : neat ? data::Packing::knapsack : data::Packing::joined;
  if (neat) return data::Packing::knapsack;
  return *args.packing_strategy == "sequential" ? data::Packing::next_fit : data::Packing::best_fit;
}

void read_loaders(const Options& options, train::TrainingJob& job) {
  const DataArguments data_args(options);
  const TrainingArguments training_args(options);
  auto& loader = job.loader;
  loader.batch_size = *training_args.per_device_train_batch_size;
  loader.seed = static_cast<uint64_t>(job.datasets.data_seed);
  auto order = *data_args.train_sampling_strategy;
  loader.shuffle = *data_args.train_dataloader_shuffle && order != "sequential";
  loader.packing = packing_of(data_args, job.encode.pretraining);
  if (uses_factory_dialect(options)) loader.packing_window = *data_args.preprocessing_batch_size;
  if (data_args.packing_length.has_value()) loader.packing_length = *data_args.packing_length;
  loader.group_by_length = *data_args.group_by_length || order == "group_by_length" || *training_args.sortish_sampler;
  loader.shuffle_buffer = job.datasets.shuffle_buffer_size;
  loader.drop_last = *data_args.dataloader_drop_last;
  loader.prefetch = *data_args.dataloader_prefetch_factor;
  loader.pin_memory = *data_args.dataloader_pin_memory;
  if (job.trainer.max_steps > 0)
    loader.batches_per_stream_epoch = job.trainer.max_steps * job.trainer.gradient_accumulation_steps;
  const auto given = [](const Arg<int64_t>& option) { return option.is_set() ? *option : 0; };
  const auto packers = loader.packing == data::Packing::none ? 0 : given(data_args.packing_num_proc);
  loader.threads =
      static_cast<size_t>(std::max({given(data_args.dataset_num_proc), given(data_args.dataloader_num_workers), packers}));
  job.eval_loader = loader;
  job.eval_loader.batch_size = *training_args.per_device_eval_batch_size;
  job.eval_loader.shuffle = false;
}

// ms-swift's callbacks by name: the ones hone has are options or always on.
void check_callbacks(const Options& options) {
  const OutputArguments args(options);
  for (const auto& name : *args.callbacks) {
    if (name == "lisa" && *TunerArguments(options).lisa_activated_layers == 0)
      throw UserError(ExitCode::usage, "the callback lisa needs the number of layers to train at a time",
                      "add --lisa_activated_layers 2");
    if (name == "early_stop" && !TrainingArguments(options).early_stop_interval.has_value())
      throw UserError(ExitCode::usage, "the callback early_stop needs a patience", "add --early_stop_interval 3");
    if (name != "early_stop" && name != "graceful_exit" && name != "lisa")
      throw UserError(ExitCode::usage, fmt::format("{} names {}, which is not in this version", args.callbacks.flag(), name),
                      "expected early_stop, lisa or graceful_exit");
  }
}

// Each device type has one collective backend; naming it is accepted, naming another one is an error.
void check_backend(const DistributedArguments& args, at::Device device) {
  if (!args.ddp_backend.has_value()) return;
  std::string_view fitting = device.is_cpu() ? "gloo" : device.is_cuda() ? "nccl" : "hccl";
  if (auto asked = *args.ddp_backend; asked != fitting)
    throw UserError(
        ExitCode::usage,
        fmt::format("{} is {}; processes on {} talk through {}", args.ddp_backend.flag(), asked, device.str(), fitting),
        "leave it out, or choose the device with --devices");
}

// Contacts the rollout servers after all other checks.
void require_servers(const train::TrainingJob& job) {
  const auto& servers = job.reinforcement  ? job.reinforcement->servers
                        : job.distillation ? job.distillation->servers
                                           : std::nullopt;
  const auto& turns = job.reinforcement ? job.reinforcement->turns : job.distillation ? job.distillation->turns : std::nullopt;
  if (servers) train::rl::require_rollout_servers(*servers, turns.has_value());
}

void read_actions(const Options& options, train::TrainingJob& job) {
  const TrainingArguments args(options);
  job.stage = training_method(options);
  check_callbacks(options);
  job.print_parameters = *ModelArguments(options).print_param_status;
  job.do_train = *args.do_train;
  // transformers' arguments enable do_eval with eval_strategy; only LLaMA-Factory's workflow reads it.
  job.do_eval = *args.do_eval || (uses_factory_dialect(options) && *args.eval_strategy != "no");
  job.do_predict = *args.do_predict;
  if (*args.bf16_full_eval || *args.fp16_full_eval) job.eval_dtype = *args.fp16_full_eval ? at::kHalf : at::kBFloat16;
  job.predict_with_generate = *args.predict_with_generate || *args.eval_metric == "nlg";
  if (uses_factory_dialect(options) && job.do_predict && !job.predict_with_generate && job.stage != "rm")
    throw UserError(ExitCode::usage, "do_predict is true and predict_with_generate is not", "add predict_with_generate: true");
  if (!job.do_train && !job.do_eval && !job.do_predict)
    throw UserError(ExitCode::usage, "nothing to do: do_train, do_eval and do_predict are all false", "add do_train: true");
}

}  // namespace

TrainerConfig trainer_config(const Options& options) {
  TrainerConfig config;
  read_length(options, config);
  read_moments(options, config);
  return config;
}

train::TrainingJob training_job(const Options& options) {
  const DataArguments data_args(options);
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  train::TrainingJob job;
  bool launched = options.front_end() == FrontEnd::accelerate;  // accelerate has no command to chat with the result
  job.program = std::string(program_name(launched ? FrontEnd::factory : options.front_end()));
  job.model_name = model_args.model.required();
  job.model_folder = hub::locate_model(job.model_name, *HubArguments(options).model_revision);
  job.load = load_options(options, job.model_folder);
  auto config = model::read_config(job.model_folder, job.load.changes.config);
  job.new_tokens = new_tokens(options);
  job.resize_embeddings = [vocabulary = vocabulary_config(options)](const text::Tokenizer& tokenizer) {
    return room_for(tokenizer, vocabulary);
  };
  job.from_scratch = *model_args.train_from_scratch;
  choose_npu_kernels(options);
  check_backend(DistributedArguments(options), job.load.device);
  read_recompute(options, config.layers, job);
  read_compute(options, config, job);
  if (training_args.neftune_noise_alpha.has_value()) job.neftune_alpha = *training_args.neftune_noise_alpha;
  if (const auto& factor = training_args.moe_expert_capacity_factor; factor.has_value())
    job.expert_capacity =
        ops::ExpertCapacity{.factor = *factor, .by_position = *training_args.moe_token_drop_policy == "position"};
  job.datasets = dataset_config(options);
  add_plugin_loss_scales(options);
  job.encode = encode_config(options, config.max_position_embeddings);
  bool keeps = uses_factory_dialect(options) && data_args.cached_dataset.has_value() && job.datasets.encoded.empty() &&
               job.datasets.val_encoded.empty();
  if (keeps) job.tokenized_path = data_args.cached_dataset->front();
  read_actions(options, job);
  job.tuner = tuner_config(options);
  job.optimizer = optimizer_config(options);
  if (job.optimizer.name == "adam_mini") job.optimizer.arguments["head_dim"] = config.attention.head_dim;
  job.groups = group_config(options);
  job.schedule = schedule_config(options);
  job.warmup = warmup_config(options);
  job.sft = {.label_smoothing = *training_args.label_smoothing_factor, .dft = *training_args.enable_dft_loss};
  if (*training_args.use_asft_loss) job.sft.asft = *training_args.asft_alpha;
  if (*training_args.use_eaft_loss) job.sft.eaft = *training_args.eaft_alpha;
  job.sft.channel_loss = *training_args.enable_channel_loss;
  job.sft.sequence_accuracy = *training_args.acc_strategy == "seq";
  job.sft.router = {.balance = *training_args.router_aux_loss_coef, .z = *training_args.router_z_loss_coef};
  if (job.sft.router.any() && config.experts.count == 0) {
    log::info("{} has no effect: the model has no experts",
              (job.sft.router.balance > 0 ? training_args.router_aux_loss_coef : training_args.router_z_loss_coef).flag());
    job.sft.router = {};
  }
  job.trainer = trainer_config(options);
  read_accelerator(options, job);
  read_places(options, job.model_folder, job.trainer);
  read_profiler(ProfilerArguments(options), job.trainer);
  read_precision(options, device::supported_dtype(config.dtype.value_or(at::kFloat), job.load.device), job);
  read_loaders(options, job);
  apply_task(options, job);
  apply_preference(options, job);
  // The loss of a policy gradient is near zero and follows the advantages: its size says nothing.
  if (job.reinforcement && !training_args.loss_spike.is_set() && !training_args.loss_spike_sigmas.is_set())
    job.trainer.spike_sigmas = 0;
  read_parallel(options, job);
  job.benchmark = training_benchmark(options);
  train::validate(job);
  require_servers(job);
  job.generation = {
      sampling_params(options, job.model_folder), static_cast<size_t>(*training_args.per_device_eval_batch_size),
      training_args.generation_max_length.has_value() ? *training_args.generation_max_length : max_total_length(options)};
  job.max_shard_bytes = static_cast<size_t>(*OutputArguments(options).max_shard_size);
  job.push = push_config(options, job.trainer.output_dir);
  job.args = options.to_json();
  if (job.load.changes.value_head && !job.reinforcement)
    job.args.update({{"task_type", "seq_cls"}, {"num_labels", 1}});  // for commands that load the model later
  if (auto name = resolved_template(options, job.model_folder); !name.empty()) job.args["template"] = name;
  // Values read from files are stored in args.json themselves, since the files may be missing where the folder is loaded.
  if (job.encode.system && TemplateArguments(options).system->ends_with(".txt")) job.args["system"] = *job.encode.system;
  if (model_args.new_special_tokens.has_value()) job.args["new_special_tokens"] = job.new_tokens.special;
  return job;
}

}  // namespace hone::cli
