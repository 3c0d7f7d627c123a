#include "hone/cli/jobs/training_job.h"

#include "hone/base/log.h"
#include "hone/cli/commands.h"
#include "hone/cli/jobs/data_job.h"
#include "hone/cli/jobs/generation_job.h"
#include "hone/cli/jobs/tuning_job.h"
#include "hone/data/make_loader.h"
#include "hone/device/device.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

using train::Every;
using train::Precision;
using train::TrainerConfig;

Every every(const Options& options, std::string_view name) {
  auto text = options.text(name);
  if (text == "best") throw UserError(ExitCode::usage, fmt::format("{} is \"best\"", options.shown(name)), "use steps or epoch; the best checkpoint is never deleted");
  return text == "no" ? Every::never : text == "epoch" ? Every::epoch : Every::steps;
}

void read_length(const Options& options, TrainerConfig& config) {
  config.epochs = options.real("num_train_epochs");
  if (options.knows("max_epochs") && options.has("max_epochs")) config.max_epochs = options.real("max_epochs");
  config.max_steps = options.integer("max_steps");
  config.accumulation = options.integer("gradient_accumulation_steps");
  config.micro_batch_size = options.integer("per_device_train_batch_size");
  config.max_grad_norm = options.real("max_grad_norm");
  config.seed = static_cast<uint64_t>(options.integer("seed"));
  config.deterministic = options.flag("full_determinism");
  config.on_non_finite = options.text("non_finite") == "stop" ? train::NonFinite::stop : train::NonFinite::skip;
}

void read_moments(const Options& options, TrainerConfig& config) {
  config.logging = every(options, "logging_strategy");
  config.logging_steps = options.text("logging_strategy") == "no" ? 0 : options.real("logging_steps");
  config.logging_first_step = options.flag("logging_first_step");
  config.save = every(options, "save_strategy");
  config.save_steps = options.real("save_steps");
  if (options.has("save_total_limit")) config.save_total_limit = options.integer("save_total_limit");
  config.save_only_model = options.flag("save_only_model");
  config.eval = every(options, "eval_strategy");
  config.eval_steps = options.real("eval_steps");
  config.eval_on_start = options.flag("eval_on_start");
  config.metric_for_best_model = options.text("metric_for_best_model");
  if (options.has("greater_is_better")) config.greater_is_better = options.flag("greater_is_better");
  config.load_best_model_at_end = options.flag("load_best_model_at_end");
  if (options.has("early_stop_interval")) config.early_stop_patience = options.integer("early_stop_interval");
}

void read_places(const Options& options, const fs::path& model, TrainerConfig& config) {
  bool factory = speaks_factory(options);
  config.layout = factory ? train::Layout::factory : train::Layout::swift;
  if (options.has("output_dir")) config.output_dir = options.text("output_dir");
  else if (factory) config.output_dir = options.required("output_dir");
  else config.output_dir = fs::path("output") / fs::weakly_canonical(model).filename();
  config.add_version = !factory && options.flag("add_version");
  config.overwrite_output_dir = options.flag("overwrite_output_dir");
  config.checkpoint_links = options.knows("create_checkpoint_symlink") && options.flag("create_checkpoint_symlink");
  config.report_to = options.list("report_to");
  std::erase_if(config.report_to, [](const std::string& name) { return name == "none"; });
  if (options.has("logging_dir")) config.logging_dir = options.text("logging_dir");
  config.plot_loss = options.flag("plot_loss");
  config.count_tokens = options.text("include_num_input_tokens_seen") != "no" && options.text("include_num_input_tokens_seen") != "false";
  if (options.has("resume_from_checkpoint")) config.resume_from_checkpoint = options.text("resume_from_checkpoint");
  config.auto_resume = factory && !config.overwrite_output_dir && !config.resume_from_checkpoint;
  config.resume_only_model = options.knows("resume_only_model") && options.flag("resume_only_model");
  config.ignore_data_skip = options.flag("ignore_data_skip");
}

// ms-swift trains half-precision weights as they are; LLaMA-Factory keeps float32 copies unless told otherwise.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job) {
  bool factory = speaks_factory(options);
  bool bf16 = options.has("bf16") && options.flag("bf16"), fp16 = options.has("fp16") && options.flag("fp16");
  if (bf16 && fp16) throw UserError(ExitCode::usage, "bf16 and fp16 are both true", "keep one of them");
  job.load.dtype = dtype_option(options, "torch_dtype");
  bool pure_bf16 = options.knows("pure_bf16") && options.flag("pure_bf16");
  if (pure_bf16) job.load.dtype = at::kBFloat16;
  bool whole = job.tuner.kind != tuner::Kind::lora;
  if (!whole && !job.load.dtype && (bf16 || fp16)) job.load.dtype = fp16 ? at::kHalf : at::kBFloat16;
  if (factory && whole && !bf16 && !fp16 && !pure_bf16 && !job.load.dtype) job.load.dtype = at::kFloat;
  auto type = job.load.dtype.value_or(stored);
  if ((fp16 && type != at::kHalf) || (bf16 && type != at::kBFloat16))
    log::warning("{}: the weights are {} and are computed with as they are; {} {} changes that",
                 options.shown(fp16 ? "fp16" : "bf16"), type == at::kHalf ? "float16" : type == at::kBFloat16 ? "bfloat16" : "float32",
                 options.shown("torch_dtype"), fp16 ? "float16" : "bfloat16");
  bool half = type == at::kHalf || fp16, brain = type == at::kBFloat16 || bf16;
  job.trainer.precision = half ? Precision::float16 : brain ? Precision::bfloat16 : Precision::float32;
  job.trainer.pure = pure_bf16 || (!factory && type == at::kBFloat16);
}

data::Packing packing_of(const Options& options, bool pretraining) {
  bool factory = speaks_factory(options);
  bool neat = options.knows("neat_packing") && options.flag("neat_packing");
  if (!options.flag("packing") && !neat) return data::Packing::none;
  if (factory) return pretraining ? data::Packing::blocks : neat ? data::Packing::knapsack : data::Packing::joined;
  if (neat) return data::Packing::knapsack;
  return options.text("packing_strategy") == "sequential" ? data::Packing::next_fit : data::Packing::best_fit;
}

void read_loaders(const Options& options, train::TrainingJob& job) {
  auto& loader = job.loader;
  loader.batch_size = options.integer("per_device_train_batch_size");
  loader.seed = static_cast<uint64_t>(job.datasets.data_seed);
  loader.shuffle = options.flag("train_dataloader_shuffle");
  loader.packing = packing_of(options, job.encode.pretraining);
  if (options.knows("packing_length") && options.has("packing_length")) loader.packing_length = options.integer("packing_length");
  loader.group_by_length = options.flag("group_by_length");
  loader.shuffle_buffer = job.datasets.shuffle_buffer_size;
  loader.threads = static_cast<size_t>(std::max(options.given("dataset_num_proc") ? options.integer("dataset_num_proc") : 0,
                                                options.given("dataloader_num_workers") ? options.integer("dataloader_num_workers") : 0));
  job.eval_loader = loader;
  job.eval_loader.batch_size = options.integer("per_device_eval_batch_size");
  job.eval_loader.shuffle = false;
}

void read_actions(const Options& options, train::TrainingJob& job) {
  job.stage = job.encode.pretraining ? "pt" : "sft";
  if (speaks_factory(options) && options.text("stage") != job.stage)
    throw UserError(ExitCode::usage, fmt::format("stage is \"{}\", which is not in this version", options.text("stage")), "expected sft or pt");
  job.do_train = options.flag("do_train");
  job.do_eval = options.flag("do_eval");
  job.do_predict = options.flag("do_predict");
  job.predict_with_generate = options.flag("predict_with_generate");
  if (speaks_factory(options) && job.do_predict && !job.predict_with_generate)
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
  auto config = model::read_config(job.model_folder);
  job.from_scratch = options.flag("train_from_scratch");
  job.load.device = device::pick(options.flag("use_cpu") ? "cpu" : options.text("devices"));
  if (auto threads = options.integer("threads"); threads > 0) at::set_num_threads(static_cast<int>(threads));
  job.gradient_checkpointing = options.flag("gradient_checkpointing");
  if (options.has("neftune_noise_alpha")) job.neftune_alpha = options.real("neftune_noise_alpha");
  job.datasets = dataset_config(options);
  job.encode = encode_config(options, config.context);
  read_actions(options, job);
  job.tuner = tuner_config(options);
  job.optimizer = optimizer_config(options);
  job.groups = group_config(options);
  job.schedule = schedule_config(options);
  auto warm = warm_up(options);
  job.warmup_steps = warm.steps;
  job.warmup_ratio = warm.ratio;
  job.sft = {.label_smoothing = options.real("label_smoothing_factor"), .dft = options.flag("enable_dft_loss")};
  read_length(options, job.trainer);
  read_moments(options, job.trainer);
  read_places(options, job.model_folder, job.trainer);
  read_precision(options, config.dtype.value_or(at::kFloat), job);
  read_loaders(options, job);
  auto request = generation_request(options, job.model_folder);
  job.generation = {request.sampling, request.max_new_tokens, static_cast<size_t>(options.integer("per_device_eval_batch_size"))};
  job.max_shard_bytes = static_cast<size_t>(options.integer("max_shard_size"));
  job.args = options.to_json();
  return job;
}

}  // namespace hone::cli
