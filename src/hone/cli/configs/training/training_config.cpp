#include "hone/cli/configs/training/training_config.h"

#include <charconv>

#include "hone/base/log.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/hub_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/npu_config.h"
#include "hone/cli/configs/training/accelerator_config.h"
#include "hone/cli/configs/training/compute_config.h"
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

namespace hone::cli {
namespace {

using train::IntervalStrategy;
using train::Precision;
using train::TrainerConfig;

IntervalStrategy every(const Options& options, std::string_view name) {
  auto text = options.text(name);
  return text == "no"      ? IntervalStrategy::never
         : text == "epoch" ? IntervalStrategy::epoch
         : text == "best"  ? IntervalStrategy::best
                           : IntervalStrategy::steps;
}

void read_length(const Options& options, TrainerConfig& config) {
  config.epochs = options.real("num_train_epochs");
  if (options.has_option("max_epochs") && options.has("max_epochs")) config.max_epochs = options.real("max_epochs");
  config.max_steps = options.integer("max_steps");
  config.gradient_accumulation_steps = options.integer("gradient_accumulation_steps");
  config.micro_batch_size = options.integer("per_device_train_batch_size");
  config.find_batch_size = options.flag("auto_find_batch_size");
  config.max_grad_norm = options.real("max_grad_norm");
  config.seed = static_cast<uint64_t>(options.integer("seed"));
  config.deterministic = options.flag("full_determinism");
  config.use_cuda_graphs = options.flag("training_graphs");
  if (options.has_option("lisa_activated_layers") && options.integer("lisa_activated_layers") > 0)
    config.layer_sampling = {options.integer("lisa_activated_layers"), options.integer("lisa_step_interval")};
  bool stops = options.text("non_finite") == "stop" || options.text("debug").find("underflow_overflow") != std::string::npos;
  config.on_non_finite = stops ? train::NonFinite::stop : train::NonFinite::skip;
  auto spike = options.text("loss_spike");
  config.on_spike = spike == "stop" ? train::Spike::stop : spike == "skip" ? train::Spike::skip : train::Spike::warn;
  config.spike_sigmas = options.real("loss_spike_sigmas");
}

void read_moments(const Options& options, TrainerConfig& config) {
  config.logging = every(options, "logging_strategy");
  config.logging_steps = options.text("logging_strategy") == "no" ? 0 : options.real("logging_steps");
  config.log_short_runs = config.logging_steps > 0 && !options.is_set("logging_steps") && !options.is_set("logging_strategy");
  config.logging_first_step = options.flag("logging_first_step");
  config.save = every(options, "save_strategy");
  config.save_steps = options.real("save_steps");
  if (options.has("save_total_limit")) config.save_total_limit = options.integer("save_total_limit");
  config.save_only_model = options.flag("save_only_model");
  config.async_save = options.flag("async_save");
  config.eval = every(options, "eval_strategy");
  config.eval_steps = options.real("eval_steps");
  config.eval_on_start = options.flag("eval_on_start");
  config.eval_delay = options.real("eval_delay");
  config.eval_loss_only = options.flag("prediction_loss_only");
  if (options.has("torch_empty_cache_steps")) config.empty_cache_steps = options.integer("torch_empty_cache_steps");
  config.metric_for_best_model = options.text("metric_for_best_model");
  bool one_by_one = options.has_option("eval_on_each_dataset") && options.flag("eval_on_each_dataset");
  if (one_by_one && !options.is_set("metric_for_best_model"))
    config.metric_for_best_model.clear();  // there is no eval_loss of all
  if (options.has("greater_is_better")) config.greater_is_better = options.flag("greater_is_better");
  config.load_best_model_at_end = options.flag("load_best_model_at_end");
  if (options.has("early_stop_interval")) config.early_stop_patience = options.integer("early_stop_interval");
}

void read_profiler(const Options& options, TrainerConfig& config) {
  if (!options.flag("enable_torch_profiler")) return;
  auto& profiler = config.profiler.emplace();
  profiler.wait = options.integer("profiler_wait_steps");
  profiler.warmup = options.integer("profiler_warmup_steps");
  profiler.active = options.integer("profiler_active_steps");
  profiler.repeat = options.integer("profiler_repeat");
  profiler.shapes = options.flag("profiler_record_shapes");
  profiler.memory = options.flag("profiler_profile_memory");
  profiler.stack = options.flag("profiler_with_stack");
  if (options.has("profiler_output_dir")) profiler.folder = options.text("profiler_output_dir");
}

void read_places(const Options& options, const fs::path& model, TrainerConfig& config) {
  bool factory = uses_factory_dialect(options);
  config.layout = factory ? train::Layout::factory : train::Layout::swift;
  if (options.has("output_dir"))
    config.output_dir = options.text("output_dir");
  else if (factory)
    config.output_dir = options.required("output_dir");
  else
    config.output_dir = fs::path("output") / fs::weakly_canonical(model).filename();
  config.add_version = !factory && options.flag("add_version");
  config.overwrite_output_dir = options.flag("overwrite_output_dir");
  config.checkpoint_links = options.has_option("create_checkpoint_symlink") && options.flag("create_checkpoint_symlink");
  read_trackers(options, config);
  if (options.has("logging_dir")) config.logging_dir = options.text("logging_dir");
  config.plot_loss = options.flag("plot_loss");
  config.progress_bar = !options.flag("disable_tqdm");
  config.report_token_rate = options.flag("include_tokens_per_second");
  config.report_effective_rate = options.flag("include_effective_tokens_per_second");
  config.count_tokens =
      options.text("include_num_input_tokens_seen") != "no" && options.text("include_num_input_tokens_seen") != "false";
  if (options.has("resume_from_checkpoint")) config.resume_from_checkpoint = options.text("resume_from_checkpoint");
  config.auto_resume = factory && !config.overwrite_output_dir && !config.resume_from_checkpoint;
  config.resume_only_model = options.has_option("resume_only_model") && options.flag("resume_only_model");
  config.ignore_data_skip = options.flag("ignore_data_skip");
  config.continue_run = parallel::run_dir_to_resume();
}

}  // namespace

// ms-swift trains half-precision weights as they are; LLaMA-Factory keeps float32 copies unless told otherwise.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job) {
  bool factory = uses_factory_dialect(options);
  bool bf16 = options.has("bf16") && options.flag("bf16"), fp16 = options.has("fp16") && options.flag("fp16");
  if (!bf16 && !fp16) bf16 = launched_precision(options) == "bf16", fp16 = launched_precision(options) == "fp16";
  job.load.dtype = dtype_option(options, "torch_dtype");
  bool pure_bf16 = options.has_option("pure_bf16") && options.flag("pure_bf16");
  if (pure_bf16) job.load.dtype = at::kBFloat16;
  bool whole = job.tuner.kind != tuner::TunerType::adapter;
  if (!whole && !job.load.dtype && (bf16 || fp16)) job.load.dtype = fp16 ? at::kHalf : at::kBFloat16;
  if (whole && fp16) job.load.dtype = at::kHalf;  // computed in float16, updated in float32
  if (factory && whole && !bf16 && !fp16 && !pure_bf16 && !job.load.dtype) job.load.dtype = at::kFloat;
  auto type = job.load.dtype.value_or(stored);
  if ((fp16 && type != at::kHalf) || (bf16 && type != at::kBFloat16))
    log::warning("{}: the weights are {} and are computed with as they are; {} {} changes that",
                 options.display_name(fp16 ? "fp16" : "bf16"),
                 type == at::kHalf       ? "float16"
                 : type == at::kBFloat16 ? "bfloat16"
                                         : "float32",
                 options.display_name("torch_dtype"), fp16 ? "float16" : "bfloat16");
  bool half = type == at::kHalf || fp16, brain = type == at::kBFloat16 || bf16;
  job.trainer.precision = half ? Precision::float16 : brain ? Precision::bfloat16 : Precision::float32;
  bool block_wise = job.optimizer.name == "badam";  // which keeps float32 copies itself, of one block
  job.trainer.no_master_weights = pure_bf16 || block_wise || (!factory && type == at::kBFloat16);
}

namespace {

// Which blocks, or which part of each, activation checkpointing runs again.
void read_recompute(const Options& options, int64_t layers, train::TrainingJob& job) {
  job.gradient_checkpointing = options.flag("gradient_checkpointing");
  if (uses_factory_dialect(options)) {
    job.offload_activations = options.flag("use_unsloth_gc");
    return;
  }
  if (options.has("vit_gradient_checkpointing") && !options.setting("vit_gradient_checkpointing").is_auto)
    job.vit_gradient_checkpointing = options.flag("vit_gradient_checkpointing");
  auto granularity = options.text("recompute_granularity");
  if (granularity == "none") job.recompute = model::Recompute::none;
  if (granularity == "selective")
    job.recompute = options.text("recompute_modules") == "mlp" ? model::Recompute::mlp : model::Recompute::attention;
  if (options.has("recompute_num_layers"))
    for (int64_t i = 0; i < std::min(layers, options.integer("recompute_num_layers")); ++i) job.recomputed_blocks.push_back(i);
  for (const auto& text : options.list("recompute_layers")) {
    int64_t block = -1;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
    if (error != std::errc() || end != text.data() + text.size() || block < 0 || block >= layers)
      throw UserError(ExitCode::usage, fmt::format("{} names block \"{}\"", options.display_name("recompute_layers"), text),
                      fmt::format("the model has blocks 0 to {}", layers - 1));
    job.recomputed_blocks.push_back(block);
  }
}

data::Packing packing_of(const Options& options, bool pretraining) {
  bool factory = uses_factory_dialect(options);
  bool neat = options.has_option("neat_packing") && options.flag("neat_packing");
  if (!options.flag("packing") && !neat) return data::Packing::none;
  if (factory) return pretraining ? data::Packing::blocks : neat ? data::Packing::knapsack : data::Packing::joined;
  if (neat) return data::Packing::knapsack;
  return options.text("packing_strategy") == "sequential" ? data::Packing::next_fit : data::Packing::best_fit;
}

void read_loaders(const Options& options, train::TrainingJob& job) {
  auto& loader = job.loader;
  loader.batch_size = options.integer("per_device_train_batch_size");
  loader.seed = static_cast<uint64_t>(job.datasets.data_seed);
  auto order = options.text("train_sampling_strategy");
  loader.shuffle = options.flag("train_dataloader_shuffle") && order != "sequential";
  loader.packing = packing_of(options, job.encode.pretraining);
  if (uses_factory_dialect(options)) loader.packing_window = options.integer("preprocessing_batch_size");
  if (options.has_option("packing_length") && options.has("packing_length"))
    loader.packing_length = options.integer("packing_length");
  loader.group_by_length = options.flag("group_by_length") || order == "group_by_length" || options.flag("sortish_sampler");
  loader.shuffle_buffer = job.datasets.shuffle_buffer_size;
  loader.drop_last = options.flag("dataloader_drop_last");
  loader.prefetch = options.integer("dataloader_prefetch_factor");
  loader.pin_memory = options.flag("dataloader_pin_memory");
  if (job.trainer.max_steps > 0)
    loader.batches_per_stream_epoch = job.trainer.max_steps * job.trainer.gradient_accumulation_steps;
  const auto given = [&](const char* option) {
    return options.has_option(option) && options.is_set(option) ? options.integer(option) : 0;
  };
  const auto packers = loader.packing == data::Packing::none ? 0 : given("packing_num_proc");
  loader.threads = static_cast<size_t>(std::max({given("dataset_num_proc"), given("dataloader_num_workers"), packers}));
  job.eval_loader = loader;
  job.eval_loader.batch_size = options.integer("per_device_eval_batch_size");
  job.eval_loader.shuffle = false;
}

// ms-swift's callbacks by name: those that hone has are options or always on.
void check_callbacks(const Options& options) {
  for (const auto& name : options.has_option("callbacks") ? options.list("callbacks") : std::vector<std::string>{}) {
    if (name == "lisa" && options.integer("lisa_activated_layers") == 0)
      throw UserError(ExitCode::usage, "the callback lisa needs to know how many layers train at a time",
                      "add --lisa_activated_layers 2");
    if (name == "early_stop" && !options.has("early_stop_interval"))
      throw UserError(ExitCode::usage, "the callback early_stop needs to know its patience", "add --early_stop_interval 3");
    if (name != "early_stop" && name != "graceful_exit" && name != "lisa")
      throw UserError(ExitCode::usage,
                      fmt::format("{} names {}, which is not in this version", options.display_name("callbacks"), name),
                      "expected early_stop, lisa or graceful_exit");
  }
}

// There is one library for each kind of device; asking for it is fine, asking for another would not be followed.
void check_backend(const Options& options, at::Device device) {
  if (!options.has("ddp_backend")) return;
  std::string_view fitting = device.is_cpu() ? "gloo" : device.is_cuda() ? "nccl" : "hccl";
  if (auto asked = options.text("ddp_backend"); asked != fitting)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}; processes on {} talk through {}", options.display_name("ddp_backend"), asked,
                                device.str(), fitting),
                    "leave it out, or choose the device with --devices");
}

void read_actions(const Options& options, train::TrainingJob& job) {
  job.stage = training_method(options);
  check_callbacks(options);
  job.print_parameters = options.flag("print_param_status");
  job.do_train = options.flag("do_train");
  // transformers' arguments turn do_eval on with eval_strategy; only LLaMA-Factory's workflow looks at it.
  job.do_eval = options.flag("do_eval") || (uses_factory_dialect(options) && options.text("eval_strategy") != "no");
  job.do_predict = options.flag("do_predict");
  if (options.flag("bf16_full_eval") || options.flag("fp16_full_eval"))
    job.eval_dtype = options.flag("fp16_full_eval") ? at::kHalf : at::kBFloat16;
  job.predict_with_generate =
      options.flag("predict_with_generate") || (options.has_option("eval_metric") && options.text("eval_metric") == "nlg");
  if (uses_factory_dialect(options) && job.do_predict && !job.predict_with_generate && job.stage != "rm")
    throw UserError(ExitCode::usage, "do_predict is true and predict_with_generate is not", "add predict_with_generate: true");
  if (!job.do_train && !job.do_eval && !job.do_predict)
    throw UserError(ExitCode::usage, "nothing to do: do_train, do_eval and do_predict are all false", "add do_train: true");
}

}  // namespace

train::TrainingJob training_job(const Options& options) {
  train::TrainingJob job;
  bool launched = options.front_end() == FrontEnd::accelerate;  // which can launch a run, but has no chat to go on with
  job.program = std::string(program_name(launched ? FrontEnd::factory : options.front_end()));
  job.model_name = options.required("model");
  job.model_folder = hub::locate_model(job.model_name, options.text("model_revision"));
  job.load = load_options(options, job.model_folder);
  auto config = model::read_config(job.model_folder, job.load.changes.config);
  job.new_tokens = new_tokens(options);
  job.resize_embeddings = [&options](const text::Tokenizer& tokenizer) { return room_for(tokenizer, options); };
  job.from_scratch = options.flag("train_from_scratch");
  choose_npu_kernels(options);
  check_backend(options, job.load.device);
  read_recompute(options, config.layers, job);
  read_compute(options, config, job);
  if (options.has("neftune_noise_alpha")) job.neftune_alpha = options.real("neftune_noise_alpha");
  job.datasets = dataset_config(options);
  job.encode = encode_config(options, config.max_position_embeddings);
  bool keeps = uses_factory_dialect(options) && options.has("cached_dataset") && job.datasets.encoded.empty() &&
               job.datasets.val_encoded.empty();
  if (keeps) job.tokenized_path = options.list("cached_dataset").front();
  read_actions(options, job);
  job.tuner = tuner_config(options);
  job.optimizer = optimizer_config(options);
  if (job.optimizer.name == "adam_mini") job.optimizer.arguments["head_dim"] = config.attention.head_dim;
  job.groups = group_config(options);
  job.schedule = schedule_config(options);
  auto warm = warm_up(options);
  job.warmup_steps = warm.steps;
  job.warmup_ratio = warm.ratio;
  job.sft = {.label_smoothing = options.real("label_smoothing_factor"), .dft = options.flag("enable_dft_loss")};
  if (options.has_option("use_asft_loss") && options.flag("use_asft_loss")) job.sft.asft = options.real("asft_alpha");
  if (options.has_option("use_eaft_loss") && options.flag("use_eaft_loss")) job.sft.eaft = options.real("eaft_alpha");
  job.sft.channel_loss = options.has_option("enable_channel_loss") && options.flag("enable_channel_loss");
  job.sft.sequence_accuracy = options.has_option("acc_strategy") && options.text("acc_strategy") == "seq";
  job.sft.router_aux_loss_coef = options.real("router_aux_loss_coef");
  if (job.sft.router_aux_loss_coef > 0 && config.experts.count == 0)
    log::info("{} has no effect: the model has no experts", options.display_name("router_aux_loss_coef"));
  read_length(options, job.trainer);
  read_accelerator(options, job);
  read_moments(options, job.trainer);
  read_places(options, job.model_folder, job.trainer);
  read_profiler(options, job.trainer);
  read_precision(options, device::supported_dtype(config.dtype.value_or(at::kFloat), job.load.device), job);
  read_loaders(options, job);
  apply_task(options, job);
  apply_preference(options, job);
  read_parallel(options, job);
  job.generation = {sampling_params(options, job.model_folder),
                    static_cast<size_t>(options.integer("per_device_eval_batch_size")),
                    options.has("generation_max_length") ? options.integer("generation_max_length") : max_total_length(options)};
  job.max_shard_bytes = static_cast<size_t>(options.integer("max_shard_size"));
  job.push = push_config(options, job.trainer.output_dir);
  job.args = options.to_json();
  if (job.load.changes.value_head && !job.reinforcement)
    job.args.update({{"task_type", "seq_cls"}, {"num_labels", 1}});  // for whoever asks the model later
  if (auto name = resolved_template(options, job.model_folder); !name.empty()) job.args["template"] = name;
  // What was read from files stands there itself: the folder may be read where those files are not.
  if (job.encode.system && options.text("system").ends_with(".txt")) job.args["system"] = *job.encode.system;
  if (options.has_option("new_special_tokens") && options.has("new_special_tokens"))
    job.args["new_special_tokens"] = job.new_tokens.special;
  return job;
}

}  // namespace hone::cli
