#include "hone/cli/configs/training/training_config.h"

#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/hub_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/benchmark_config.h"
#include "hone/cli/configs/training/compute_config.h"
#include "hone/cli/configs/training/loss_scale_plugins.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/suggested_commands.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/trainer_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/data/batches/make_loader.h"
#include "hone/device/device.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"
#include "hone/train/rl/servers/rollout_client.h"
#include "hone/train/validate.h"

namespace hone::cli {
namespace {

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
  if (data_args.packing_length.is_set() && loader.packing == data::Packing::none)
    log::warning("{} has no effect without {} true", data_args.packing_length.flag(), data_args.packing.flag());
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
        fmt::format("{} is {}; processes on {} communicate through {}", args.ddp_backend.flag(), asked, device.str(), fitting),
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

train::TrainingJob training_job(const Options& options) {
  const DataArguments data_args(options);
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  train::TrainingJob job;
  job.commands = suggested_commands(options.front_end());
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
  job.sft.eval_accuracy = *training_args.compute_accuracy && *training_args.stage == "sft";
  job.sft.router = {.balance = *training_args.router_aux_loss_coef, .z = *training_args.router_z_loss_coef};
  if (job.sft.router.any() && config.experts.count == 0) {
    log::info("{} has no effect: the model has no experts",
              (job.sft.router.balance > 0 ? training_args.router_aux_loss_coef : training_args.router_z_loss_coef).flag());
    job.sft.router = {};
  }
  job.trainer = trainer_config(options);
  read_accelerator(options, job);
  read_output(options, job.model_folder, job.trainer);
  read_profiler(ProfilerArguments(options), job.trainer);
  read_precision(options, device::supported_dtype(config.dtype.value_or(at::kFloat), job.load.device), job);
  read_loaders(options, job);
  apply_task(options, job);
  apply_preference(options, job);
  // The loss of a policy gradient is near zero and follows the advantages: its size has no meaning.
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
