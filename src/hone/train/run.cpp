#include "hone/train/run.h"

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/device.h"
#include "hone/device/memory.h"
#include "hone/model/decoder.h"
#include "hone/model/expansion.h"
#include "hone/parallel/launch/supervisor.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/checkpoints/node_replication.h"
#include "hone/train/distillation/teacher.h"
#include "hone/train/evaluation/final_evaluation.h"
#include "hone/train/evaluation/results.h"
#include "hone/train/loaded_model.h"
#include "hone/train/loop/adalora.h"
#include "hone/train/loop/base_gradients.h"
#include "hone/train/loop/trainer.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/methods/reference.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/plot.h"
#include "hone/train/reports/run_log.h"
#include "hone/train/reports/run_summary.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/run_setup.h"
#include "hone/tuner/quantize/float8.h"
#include "hone/tuner/tuner.h"

namespace hone::train {
namespace {

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

// Log-probabilities of two models are compared as they are; adapter_config.json keeps what was asked for, as ms-swift and
// LLaMA-Factory have it.
void switch_off_dropout(model::CausalLM& model) {
  for (const auto& slot : model.tree().slots())
    for (auto& adapter : *slot.adapters) adapter.dropout = 0;
}

LoadedModel load_model(const TrainingJob& job, const RunSetup& ready, const DistributedContext& processes) {
  auto options = job.load;
  if (job.resize_embeddings) options.changes.vocabulary = job.resize_embeddings(*ready.tokenizer);
  auto model = job.from_scratch ? model::CausalLM::random(model::read_config(job.model_folder, options.changes.config),
                                                          job.trainer.seed, options)
                                : model::CausalLM::load(job.model_folder, options);
  device::seed(job.trainer.seed);
  auto tuning = job.tuner;
  tuning.share_base_storage = processes.shards_model();
  tuning.resumed = ready.resume;
  tuning.steps = ready.plan.max_steps;
  if (job.offload_activations && job.load.device.is_cpu())
    log::warning("activations are in host memory already: on a CPU there is nowhere to offload them to");
  model::apply_activation_checkpointing(*model, job.gradient_checkpointing ? job.recompute : model::Recompute::none,
                                        job.recomputed_blocks, job.offload_activations && !job.load.device.is_cpu());
  if (auto& vision = model->decoder().vision; vision && job.vit_gradient_checkpointing)
    vision->recompute = *job.vit_gradient_checkpointing ? model::Recompute::block : model::Recompute::none;
  auto tuned = tuner::apply_tuner(*model, tuning, gradients_of_first_rows(job, ready.tokenizer, ready.data.train));
  const bool keeps_dropout = model->value_head() && job.preference.method == Preference::rm;  // as LLaMA-Factory's reward models
  if ((job.preference.method != Preference::none && !keeps_dropout) || job.reinforcement) switch_off_dropout(*model);
  auto reference = make_reference(job, *ready.tokenizer, processes, *model, tuned);
  auto teacher = make_teacher(job, *ready.tokenizer, processes, tuned);
  model->decoder().neftune_alpha = job.neftune_alpha;
  model->decoder().shifted_attention = job.shifted_attention;
  if (job.float8) tuner::apply_float8(*model);
  if (job.print_parameters && processes.world.is_main())
    for (const auto& [name, value] : model->parameters())
      log::info("name: {}, dtype: {}, device: {}, trainable: {}", name, type_name(value->scalar_type()), value->device().str(),
                value->requires_grad());
  auto loaded = shard_model(job, processes, std::move(model), std::move(tuned));
  loaded.reference = std::move(reference);
  loaded.teacher = std::move(teacher);
  loaded.value_model = load_value_model(job, ready.resume, *ready.tokenizer, processes);
  return loaded;
}

// Work per token as transformers estimates it: six operations for each weight outside the embedding.
double flops_per_token(model::CausalLM& model) {
  double weights = 0;
  for (const auto& parameter : model.parameters())
    if (parameter.value != &model.embedding().weight) weights += static_cast<double>(parameter.value->numel());
  return 6 * weights;
}

CheckpointAssets assets_of(const TrainingJob& job, const RunSetup& ready, const LoadedModel& loaded) {
  CheckpointAssets companions{.model_folder = job.model_folder,
                              .model_name = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                              .tuner = tuner_name(job.tuner),
                              .adapter = job.tuner.kind == tuner::TunerType::adapter,
                              .weights_type = type_name(loaded.model->dtype()),
                              .layout = job.trainer.layout,
                              .args = job.args,
                              .additional = nullptr,
                              .config_changes = job.load.changes.config,
                              .new_tokens = job.new_tokens,
                              .tokenizer = ready.tokenizer};
  companions.config_changes["vocab_size"] = loaded.model->config().vocab_size;
  if (auto stride = job.load.changes.block_stride)
    companions.config_changes.update(
        model::expanded_config(read_config_file((job.model_folder / "config.json").string()), stride));
  if (job.tuner.method == "LORA" && job.tuner.kind == tuner::TunerType::adapter && job.trainer.layout == Layout::swift)
    companions.additional = {{"lora_dtype", job.tuner.lora.dtype ? Json(type_name(*job.tuner.lora.dtype)) : Json(nullptr)},
                             {"lorap_lr_ratio", job.groups.loraplus_ratio ? Json(*job.groups.loraplus_ratio) : Json(nullptr)},
                             {"lorap_emb_lr", job.groups.loraplus_embedding_rate}};
  return companions;
}

int exit_code(const RunResult& finished) {
  if (!finished.kept()) return static_cast<int>(ExitCode::out_of_space);
  switch (finished.outcome) {
    case Outcome::preempted:
      return static_cast<int>(ExitCode::preempted);
    case Outcome::interrupted:
      return static_cast<int>(ExitCode::interrupted);
    default:
      return static_cast<int>(ExitCode::ok);
  }
}

// "train.jsonl:12" for reports about a batch.
std::function<std::string(int64_t)> row_namer(const RunSetup& ready) {
  auto source = ready.data.train;
  if (!source) return {};
  return [source](int64_t row) {
    auto conversation = source->at(row);
    return conversation ? conversation->origin.str() : fmt::format("row {}", row);
  };
}

// The head of ms-swift's summary line.
Json about_run(const RunSetup& ready, const LoadedModel& loaded) {
  auto millions = [](int64_t count) { return static_cast<double>(count) / 1e6; };
  const auto& tuned = loaded.tuned;
  Json about{{"model_parameter_info",
              fmt::format("{}: {:.4f}M Params ({:.4f}M Trainable [{:.4f}%]), 0.0000M Buffers.",
                          loaded.model->config().architecture, millions(tuned.total_count), millions(tuned.trainable_count),
                          100 * millions(tuned.trainable_count) / std::max(millions(tuned.total_count), 1e-9))}};
  if (ready.data.train) about["train_dataset"] = fmt::format("size={}", ready.data.train->size());
  if (ready.data.validation) about["val_dataset"] = fmt::format("size={}", ready.data.validation->size());
  return about;
}

RunFacts facts_of(const TrainingJob& job, const RunSetup& ready, const LoadedModel& loaded, int processes) {
  RunFacts facts{.model = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                 .tuner = tuner_name(job.tuner),
                 .device = device::describe(job.load.device),
                 .dtype = type_name(loaded.model->dtype()),
                 .template_name = ready.encoder->template_name(),
                 .max_length = ready.encoder->config().max_length,
                 .processes = processes};
  if (!ready.data.train) return facts;
  const auto& report = *ready.report;
  facts.examples = ready.data.train->size() - report.bad();
  if (report.good() < facts.examples) return facts;  // large inputs are read while the run continues
  facts.tokens = report.tokens();
  facts.trained_tokens = report.trained_tokens();
  facts.longest_row = report.longest();
  return facts;
}

// The checkpoint that a run of ms-swift's layout comes to.
std::string result_of(const TrainState& state) {
  if (state.last_model_checkpoint.empty())
    throw UserError(ExitCode::usage, "there is no checkpoint to send to the hub", "set --save_strategy to steps or epoch");
  return state.last_model_checkpoint;
}

// Updates in the backward pass need gradients that are complete there, in the weights' own scale.
optim::OptimizerConfig optimizer_recipe(const TrainingJob& job, const DistributedContext& processes) {
  auto recipe = job.optimizer;
  if (!recipe.per_parameter) return recipe;
  const bool scaled = job.trainer.precision == Precision::float16 && !job.trainer.no_master_weights;
  if (processes.world.distributed() || scaled) {
    log::warning("{}: parameters are updated after the backward pass, with the same numbers",
                 processes.world.distributed() ? "several processes add up gradients first" : "float16 scales its losses");
    recipe.per_parameter = false;
  } else if (job.trainer.max_grad_norm > 0) {
    log::warning("max_grad_norm is ignored: per-parameter updates run before the global gradient norm is known; set it to 0");
  }
  return recipe;
}

TensorList trained_tensors(const LoadedModel& loaded) {
  TensorList tensors;
  for (const auto* model : {&loaded, const_cast<const LoadedModel*>(loaded.value_model.get())})
    if (model)
      for (const auto& [name, tensor] : model->tuned.trainable) tensors.push_back(tensor);
  return tensors;
}

RunResult train(const TrainingJob& job, RunSetup& ready, LoadedModel& loaded, const DistributedContext& processes) {
  const auto& config = job.trainer;
  if (!processes.group && !loaded.sharded) model::join_trained_projections(*loaded.model);
  if (!processes.group && !loaded.sharded && loaded.value_model) model::join_trained_projections(*loaded.value_model->model);
  auto groups = trained_groups(job, loaded);
  auto working = groups;
  MasterWeights masters = config.no_master_weights ? MasterWeights() : MasterWeights(groups);
  auto optimizer = with_rank_allocation(optim::make_optimizer(optimizer_recipe(job, processes), std::move(groups)), loaded.tuned,
                                        ready.plan.max_steps);
  masters.let_write(*optimizer);
  auto* value_model = loaded.value_model ? loaded.value_model->model.get() : nullptr;
  auto method = make_loss(job, *ready.tokenizer, {loaded.reference.get(), value_model, loaded.teacher.get()});
  auto group = make_strategy(job, processes, loaded, working, optimizer->groups());
  if (ready.rollouts)
    ready.rollouts->begin({*loaded.model, loaded.reference.get(), value_model, *group, loaded.sharded != nullptr, ready.encoder,
                           ready.tokenizer, ready.rollouts->longest_prompt(), ready.run.root, config.seed});
  if (ready.distillation)
    ready.distillation->begin({*loaded.model, loaded.teacher->model(), *group, loaded.sharded != nullptr, ready.encoder,
                               ready.tokenizer, ready.run.root});
  auto savers = processes.checkpoint_group ? std::make_unique<MultiProcess>(*processes.checkpoint_group) : nullptr;
  auto companions = assets_of(job, ready, loaded);
  auto weights = weight_files(job, loaded, companions, processes.world.is_main());
  CheckpointAssets value_assets;
  if (loaded.value_model) {
    value_assets = value_model_assets(job, *loaded.value_model);
    weights = with_value_model(weights, weight_files(job, *loaded.value_model, value_assets, processes.world.is_main()), loaded,
                               processes.world.is_main());
  }
  DataShard share{processes.data_rank(), processes.data_size()};
  std::optional<HubPush> push;
  if (job.push && processes.world.is_main()) push.emplace(*job.push);
  auto tell_hub = [&push](const fs::path& checkpoint, int64_t step) {
    if (push) push->saved(checkpoint, step);
  };
  NodeReplicator copies(processes.leaders.get());
  const bool passes_repeat = !processes.group && !optimizer_recipe(job, processes).per_parameter;
  DataShard everyone{processes.world.rank,
                     processes.world.size};  // answers are generated by whole models, also where sequences are split
  Trainer trainer(config, ready.run,
                  {*loaded.model, *method, *ready.loader, *optimizer, *ready.schedule, masters, *group, savers ? *savers : *group,
                   weights, evaluations_of(job, ready, share),
                   job.predict_with_generate ? make_predictor(job, ready, *loaded.model, everyone) : Predict(), row_namer(ready),
                   flops_per_token(*loaded.model), loaded.sequence.get(), tell_hub, ready.folder_per_node ? &copies : nullptr,
                   passes_repeat ? trained_tensors(loaded) : TensorList()});
  // Weights began alike on all processes; dropout must not.
  if (int rank = processes.world.rank; rank > 0) device::seed(job.trainer.seed + static_cast<uint64_t>(rank));
  if (ready.resume) trainer.resume(*ready.resume);
  if (processes.world.is_main()) {
    log::debug("{}", trainable_table(loaded.tuned));
    log::info("{}", running_block(config, ready.plan, facts_of(job, ready, loaded, group->size()), loaded.tuned));
  }
  auto outcome = trainer.train();
  RunResult finished{outcome,
                     trainer.state(),
                     ready.run,
                     {},
                     job.program,
                     job.model_folder,
                     loaded.tuned.adapter.has_value(),
                     config.layout,
                     config.load_best_model_at_end,
                     method->state()};
  if (!finished.complete()) return finished;
  if (config.layout == Layout::factory) {
    auto write = [&] {
      weights.save(ready.run.root);
      if (job.tuner.lora.convert_at_end && loaded.tuned.adapter)
        tuner::save_pissa_conversion(*loaded.model, *loaded.tuned.adapter, ready.run.root);
    };
    if (weights.gather)
      weights.gather(write);
    else if (processes.world.is_main())
      write();
    if (processes.world.is_main()) weights.save_assets(ready.run.root);
    if (ready.folder_per_node) copies.replicate(ready.run.root, NodeReplicator::Depth::folder_alone);
  }
  if (!processes.world.is_main()) return finished;
  if (config.plot_loss) finished.plots = plot_history(finished.state.log_history, config.layout, ready.run.root);
  if (config.swanlab.enabled) upload_to_swanlab(config.swanlab, event_folder(config, ready.run));
  write_train_results(config, ready.run, finished.state, trainer.results(), about_run(ready, loaded));
  if (push)
    log::info("sent to {}",
              push->finish(config.layout == Layout::factory ? ready.run.root : fs::path(result_of(finished.state))));
  return finished;
}

void check_method(const TrainingJob& job, const DistributedContext& processes) {
  if (job.reinforcement && job.parallel.sequence_parallel > 1)
    throw UserError(ExitCode::usage, "sequence parallelism does not support generated completions",
                    "leave --sequence_parallel_size out");
  if (job.reinforcement && job.do_eval && (!job.do_train || job.trainer.eval == IntervalStrategy::never))
    throw UserError(ExitCode::usage, "generated completions are scored during training, in evaluations and after the last step",
                    "train with --eval_strategy steps, and leave --do_eval out");
  if (job.reinforcement && job.trainer.find_batch_size)
    throw UserError(ExitCode::usage, "auto_find_batch_size would change the group size", "set --per_device_train_batch_size");
  if (!job.task.is_generative() && job.parallel.sequence_parallel > 1)
    throw UserError(ExitCode::usage, "pooling tasks need full sequences, which sequence parallelism splits",
                    "leave --sequence_parallel_size out");
  if ((job.preference.method != Preference::none || job.distillation) && job.parallel.sequence_parallel > 1)
    throw UserError(ExitCode::usage, "this loss compares full sequences, which sequence parallelism splits",
                    "leave --sequence_parallel_size out");
  if (processes.shards_model()) require_elementwise(job.optimizer.name);
  if (processes.shards_model() && job.tuner.method == "ADALORA")
    throw UserError(ExitCode::usage, "AdaLoRA needs unsharded matrices, which are sharded over processes here",
                    "leave --deepspeed and --fsdp out");
  if (processes.world.distributed() && job.optimizer.name == "badam")
    throw UserError(ExitCode::usage, "BAdam moves gradients from layer to layer, which several processes cannot follow",
                    "train in one process, or use adamw_torch");
  if (processes.world.distributed() && job.trainer.find_batch_size)
    throw UserError(ExitCode::usage, "auto_find_batch_size looks for what fits one process; several would have to agree",
                    "set --per_device_train_batch_size");
}

// One attempt. `folder` is where the run is written as soon as that is known.
int attempt(const TrainingJob& job, const DistributedContext& processes, fs::path& folder) {
  auto ready = set_up_run(job, processes);
  folder = ready.run.root;
  bool main = processes.world.is_main();
  if (main && !job.chosen.empty()) log::info("auto: {}", job.chosen);
  if (main && !job.args.empty() && job.trainer.layout == Layout::swift) write_args(ready.run.root, job.args);
  try {
    auto loaded = load_model(job, ready, processes);
    std::optional<RunResult> finished;
    if (job.do_train) finished = train(job, ready, loaded, processes);
    if (!finished || finished->complete()) evaluate_after_training(job, ready, loaded, finished ? &*finished : nullptr, main);
    if (main && finished) fmt::print("\n{}", final_summary(*finished));
    return finished ? exit_code(*finished) : static_cast<int>(ExitCode::ok);
  } catch (const c10::OutOfMemoryError& error) {
    auto use = device::memory_use(job.load.device);
    throw UserError(
        ExitCode::out_of_memory,
        fmt::format("{} ran out of memory ({} in use at the peak, {} in all)", device::describe(job.load.device),
                    format_bytes(static_cast<double>(use.peak)), format_bytes(static_cast<double>(use.total))),
        "lower the batch size or --max_length, raise --gradient_accumulation_steps, or add --gradient_checkpointing true");
  }
}

// What a device's batch is when batches are given for all of them.
int64_t split_batch(int64_t whole, int processes) {
  if (whole % processes != 0)
    throw UserError(
        ExitCode::usage, fmt::format("batches of {} do not split over {} processes", whole, processes),
        "with split_batches, per_device batch sizes are those of all processes together: choose a multiple of their number");
  return whole / processes;
}

TrainingJob with_split_batches(TrainingJob job, int processes) {
  job.loader.batch_size = job.trainer.micro_batch_size = split_batch(job.loader.batch_size, processes);
  job.eval_loader.batch_size = std::max<int64_t>(1, job.eval_loader.batch_size / processes);  // no result depends on it
  return job;
}

int attempts(const TrainingJob& job, const DistributedContext& processes, fs::path& folder) {
  auto smaller = job;
  for (;;) {
    try {
      return attempt(smaller, processes, folder);
    } catch (const UserError& problem) {
      if (!job.trainer.find_batch_size || problem.code() != ExitCode::out_of_memory || smaller.loader.batch_size == 1) throw;
    }
    smaller.loader.batch_size /= 2;
    smaller.trainer.micro_batch_size = smaller.loader.batch_size;
    smaller.trainer.continue_run = folder;
    device::empty_cache(job.load.device);
    log::warning("out of memory: again with --per_device_train_batch_size {}", smaller.loader.batch_size);
  }
}

}  // namespace

std::string display_name(const TrainingJob& job) { return fmt::format("{} of {}", job.stage, job.model_name); }

int run_training(const TrainingJob& job) {
  if (job.load.device.is_cpu()) device::enable_cpu_caching_allocator();
  auto processes = DistributedContext::join(job.parallel, job.args, job.load.device);
  check_method(job, processes);
  if (job.reinforcement && job.do_train && processes.world.is_main()) rl::probe_rewards(job.reinforcement->rewards);
  fs::path folder;
  // A supervisor speaks for its ranks, since it outlives them; before there is a folder, only who typed the command wants to
  // know.
  auto tell = [&](const std::string& error) {
    if (processes.world.is_main() && !parallel::is_supervised() && !folder.empty())
      send_run_notification(job.trainer.swanlab, folder, display_name(job), error);
  };
  std::error_code ignored;
  const bool is_new = !fs::exists(job.trainer.output_dir, ignored);
  try {
    int code = attempts(job.split_batches ? with_split_batches(job, processes.data_size()) : job, processes, folder);
    tell(describe_exit_code(code));
    return code;
  } catch (const std::exception& problem) {
    tell(problem.what());
    if (processes.world.is_main()) {
      discard_unused(job.trainer, folder);
      if (is_new) fs::remove(job.trainer.output_dir, ignored);  // where nothing was written into it
    }
    throw;
  }
}

}  // namespace hone::train
