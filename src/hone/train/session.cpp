#include "hone/train/session.h"

#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/device/generator.h"
#include "hone/model/decoder.h"
#include "hone/train/checkpoints/merged_checkpoint.h"
#include "hone/train/checkpoints/node_replication.h"
#include "hone/train/checkpoints/weight_files.h"
#include "hone/train/distributed/data_ranks.h"
#include "hone/train/distributed/make_strategy.h"
#include "hone/train/distributed/matrix_shards.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/evaluation/final_evaluation.h"
#include "hone/train/load_model.h"
#include "hone/train/loop/adalora.h"
#include "hone/train/loop/base_gradients.h"
#include "hone/train/loop/trainer.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/plot.h"
#include "hone/train/reports/run_facts.h"
#include "hone/train/reports/run_log.h"
#include "hone/train/session_files.h"
#include "hone/tuner/quantize/float8.h"
#include "hone/tuner/trained_files.h"

namespace hone::train {
namespace {

// Log-probabilities of two models are compared without dropout; adapter_config.json keeps the requested value, as in ms-swift and
// LLaMA-Factory.
void switch_off_dropout(model::CausalLM& model) {
  for (const auto& slot : model.tree().slots())
    for (auto& adapter : *slot.adapters) adapter.dropout = 0;
}

// FLOPs per token by transformers' estimate: six operations per weight outside the embedding.
double flops_per_token(const LoadedModel& loaded) {
  double weights = 0;
  for (const auto& parameter : loaded.model->parameters()) {
    if (parameter.value == &loaded.model->embedding().weight) continue;
    const auto* shard = loaded.tensor ? loaded.tensor->shard_of(*parameter.value) : nullptr;
    weights += static_cast<double>(shard ? c10::multiply_integers(shard->full_shape) : parameter.value->numel());
  }
  return 6 * weights;
}

// "train.jsonl:12" for reports about a batch.
std::function<std::string(int64_t)> row_namer(const RunSetup& setup) {
  auto source = setup.data.train;
  if (!source) return {};
  return [source](int64_t row) {
    auto conversation = source->at(row);
    return conversation ? conversation->origin.str() : fmt::format("row {}", row);
  };
}

// The result of a run in ms-swift's layout.
std::string last_checkpoint(const TrainState& state) {
  if (state.last_model_checkpoint.empty())
    throw UserError(ExitCode::usage, "there is no checkpoint to send to the hub", "set `save_strategy` to steps or epoch");
  return state.last_model_checkpoint;
}

// Per-parameter updates run in the backward pass, which needs complete, unscaled gradients.
optim::OptimizerConfig optimizer_config(const TrainingJob& job, const DistributedContext& processes) {
  auto config = job.optimizer;
  if (!config.per_parameter) return config;
  const bool scaled = job.trainer.precision == Precision::float16 && !job.trainer.no_master_weights;
  if (processes.world.distributed() || scaled) {
    log::warning("{}: parameters are updated after the backward pass, with the same numbers",
                 processes.world.distributed() ? "several processes add up gradients first" : "float16 scales its losses");
    config.per_parameter = false;
  } else if (job.trainer.max_grad_norm > 0) {
    log::warning("max_grad_norm is ignored: per-parameter updates run before the global gradient norm is known; set it to 0");
  }
  return config;
}

std::function<Json(int64_t)> benchmark_of(const TrainingJob& job, const RunSetup& setup, model::CausalLM& model) {
  if (!job.benchmark) return {};
  return [&job, &setup, &model](int64_t step) {
    return job.benchmark({model, setup.tokenizer, setup.encoder, setup.run.root, step});
  };
}

// Called after each update; empty if the reference does not change.
std::function<void(int64_t)> reference_sync(const TrainingJob& job, Reference* reference, model::CausalLM& model) {
  const auto& sync = job.preference.reference.sync;
  if (!reference || !sync) return {};
  return [reference, &model, sync = *sync](int64_t step) {
    if (step % sync.steps == 0) reference->follow(model, sync.alpha);
  };
}

}  // namespace

TrainingSession::TrainingSession(const TrainingJob& job, const DistributedContext& processes)
    : job_(job), processes_(processes), setup_(set_up_run(job, processes)) {}

void TrainingSession::load_models() {
  auto model = load_model(job_, processes_, *setup_.tokenizer);
  device::seed(job_.trainer.seed);
  auto tuning = job_.tuner;
  tuning.share_base_storage = processes_.shards_model() || processes_.stages;
  tuning.resumed = setup_.resume;
  tuning.steps = setup_.plan.max_steps;
  if (job_.activation_checkpointing.offload && job_.load.device.is_cpu())
    log::warning("activations are not offloaded: on a CPU they are in host memory already");
  model::apply_activation_checkpointing(*model, job_.activation_checkpointing, job_.load.device, expected_row_length(job_));
  auto tuned = tuner::apply_tuner(*model, tuning, gradients_of_first_rows(job_, setup_.tokenizer, setup_.data.train));
  const bool keeps_dropout =
      model->decoder().value_head.has_value() && job_.preference.method == Preference::rm;  // as LLaMA-Factory's reward models
  if ((job_.preference.method != Preference::none && !keeps_dropout) || job_.reinforcement) switch_off_dropout(*model);
  reference_ = make_reference(job_, *setup_.tokenizer, processes_, *model, tuned, models_);
  teacher_ = make_teacher(job_, processes_, tuned, models_);
  policy_teacher_ = rl::make_policy_teacher(job_, processes_, tuned, models_);
  model->decoder().neftune_alpha = job_.neftune_alpha;
  limit_experts(*model, job_.expert_capacity);
  model->decoder().shifted_attention = job_.shifted_attention;
  if (job_.print_parameters && processes_.world.is_main())
    for (const auto& [name, value] : model->parameters())
      log::info("name: {}, dtype: {}, device: {}, trainable: {}", name, type_name(value->scalar_type()), value->device().str(),
                value->requires_grad());
  const auto& policy = models_.add(parallelize_model(job_, processes_, kPolicy, std::move(model), std::move(tuned)));
  if (job_.float8) tuner::apply_float8(*policy.model);  // depends on the sizes of shards
  load_value_model(job_, setup_.resume, processes_, models_);
}

OtherModels TrainingSession::other_models() const {
  auto* value_model = models_.find(kValueModel);
  return {
      .reference = reference_.get(), .value_model = value_model ? value_model->model.get() : nullptr, .teacher = teacher_.get()};
}

// Gives loaders that generate their batches the models that do.
void TrainingSession::connect_generation(ParallelStrategy& strategy, const WeightFiles& files) {
  auto& policy = models_.policy();
  auto* peers = processes_.same_rows.get();
  const bool counts = strategy.counts_rows() && (!policy.sequence || policy.sequence->is_first_rank());
  if (peers) data_ranks_ = std::make_unique<DataRanks>(strategy, processes_.data_rank(), processes_.data_size(), counts);
  auto& data_ranks = data_ranks_ ? *data_ranks_ : strategy;
  const auto others = other_models();
  if (setup_.rollouts)
    setup_.rollouts->begin({.model = *policy.model,
                            .tuned = policy.tuned,
                            .reference = others.reference,
                            .teacher = policy_teacher_.get(),
                            .value_model = others.value_model,
                            .strategy = data_ranks,
                            .processes = strategy,
                            .peers = peers,
                            .files = &files,
                            .sequence = policy.sequence.get(),
                            .sharded = policy.is_distributed(),
                            .encoder = setup_.encoder,
                            .tokenizer = setup_.tokenizer,
                            .longest_prompt = setup_.rollouts->longest_prompt(),
                            .folder = setup_.run.root,
                            .seed = job_.trainer.seed});
  if (setup_.distillation)
    setup_.distillation->begin({.student = *policy.model,
                                .tuned = policy.tuned,
                                .teacher = teacher_->model(),
                                .strategy = data_ranks,
                                .processes = strategy,
                                .peers = peers,
                                .files = &files,
                                .sharded = policy.is_distributed(),
                                .encoder = setup_.encoder,
                                .tokenizer = setup_.tokenizer,
                                .folder = setup_.run.root});
}

RunResult TrainingSession::train() {
  const auto& config = job_.trainer;
  auto& policy = models_.policy();
  if (!processes_.group && !policy.sharded)
    for (auto* loaded : models_.trained()) model::join_trained_projections(*loaded->model);
  auto groups = trained_groups(job_, models_);
  auto working = groups;
  MasterWeights masters = config.no_master_weights ? MasterWeights() : MasterWeights(groups);
  auto recipe = optimizer_config(job_, processes_);
  recipe.matrices = matrix_shards(models_, working);
  auto optimizer = with_rank_allocation(optim::make_optimizer(recipe, std::move(groups)), policy.tuned, setup_.plan.max_steps,
                                        processes_.stages.get(), job_.load.device);
  masters.let_write(*optimizer);
  auto loss = make_loss(job_, *setup_.tokenizer, other_models());
  auto strategy = make_strategy(job_, processes_, models_, working, optimizer->groups());
  const auto assets = checkpoint_assets(job_, setup_, policy);
  const auto policy_files = weight_files(job_, processes_, policy, assets);
  connect_generation(*strategy, policy_files);
  auto save_group = processes_.checkpoint_group ? std::make_unique<MultiProcess>(*processes_.checkpoint_group) : nullptr;
  const auto* value_model = models_.find(kValueModel);
  const auto value_assets = value_model ? value_model_assets(job_, *value_model) : CheckpointAssets();
  const auto weights = session_weights(job_, processes_, models_, assets, value_assets);
  std::optional<HubPush> push;
  if (job_.push && is_main()) push.emplace(*job_.push);
  const bool merges = config.merge_lora && policy.tuned.adapter.has_value();
  auto after_save = [&](const fs::path& checkpoint, int64_t step) {
    if (merges) write_merged_checkpoint(job_, *setup_.tokenizer, checkpoint);
    if (push) push->saved(checkpoint, step);
  };
  NodeReplicator replicator(processes_.leaders.get());
  const DataShard data_shard{processes_.data_rank(), processes_.data_size()};
  // Every process generates with an unsplit model, also if sequences are split.
  const DataShard process_shard{processes_.world.rank, processes_.world.size};
  for (const char* name : {kReferenceModel, kTeacherModel, kValueModel})
    if (auto* other = models_.find(name); other && policy.sequence) split_sequences_of(*other, *policy.sequence, processes_);
  const bool can_replay_passes = !processes_.group && !recipe.per_parameter;
  Trainer trainer(config, setup_.run,
                  {.model = *policy.model,
                   .loss = *loss,
                   .loader = *setup_.loader,
                   .optimizer = *optimizer,
                   .lr_scheduler = *setup_.schedule,
                   .masters = masters,
                   .strategy = *strategy,
                   .save_group = save_group ? *save_group : *strategy,
                   .weights = weights,
                   .evaluations = evaluations_of(job_, setup_, data_shard),
                   .predict = job_.predict_with_generate ? make_predictor(job_, setup_, *policy.model, process_shard) : Predict(),
                   .benchmark = benchmark_of(job_, setup_, *policy.model),
                   .row_name = row_namer(setup_),
                   .flops_per_token = flops_per_token(policy),
                   .sequence = policy.sequence.get(),
                   .after_save = after_save,
                   .after_update = reference_sync(job_, reference_.get(), *policy.model),
                   .replicator = setup_.folder_per_node ? &replicator : nullptr,
                   .trained = can_replay_passes ? trained_tensors(models_) : TensorList()});
  // Weights start equal on all processes; dropout must differ, except between processes that compute the same rows.
  if (int rank = processes_.tensor || processes_.stages ? processes_.data_rank() : processes_.world.rank; rank > 0)
    device::seed(config.seed + static_cast<uint64_t>(rank));
  if (setup_.resume) trainer.resume(*setup_.resume);
  if (is_main()) {
    log::debug("{}", trainable_table(policy.tuned));
    log::info("{}", running_block(config, setup_.plan, run_facts(job_, setup_, policy, processes_), policy.tuned));
  }
  const auto outcome = trainer.train();
  RunResult finished{.outcome = outcome,
                     .state = trainer.state(),
                     .run = setup_.run,
                     .plots = {},
                     .model_folder = job_.model_folder,
                     .adapter = policy.tuned.adapter.has_value(),
                     .scores = job_.preference.method == Preference::rm,
                     .overwrites = config.overwrite_output_dir,
                     .layout = config.layout,
                     .best_loaded = config.load_best_model_at_end,
                     .loss_state = loss->state()};
  if (!finished.complete()) return finished;
  if (config.layout == Layout::factory) save_result(weights, replicator);
  if (!is_main()) return finished;
  report_result(trainer, finished);
  if (push)
    log::info("sent to {}",
              push->finish(config.layout == Layout::factory ? setup_.run.root : fs::path(last_checkpoint(finished.state))));
  return finished;
}

// LLaMA-Factory's layout: the final weights are next to the checkpoints.
void TrainingSession::save_result(const WeightFiles& weights, const NodeReplicator& replicator) {
  auto& policy = models_.policy();
  auto write = [&] {
    weights.save(setup_.run.root);
    if (job_.tuner.lora.convert_at_end && policy.tuned.adapter)
      tuner::save_pissa_conversion(*policy.model, *policy.tuned.adapter, setup_.run.root);
  };
  if (weights.gather)
    weights.gather(write);
  else if (is_main())
    write();
  if (is_main()) weights.save_assets(setup_.run.root);
  if (setup_.folder_per_node) replicator.replicate(setup_.run.root, NodeReplicator::Depth::folder_alone);
}

void TrainingSession::report_result(const Trainer& trainer, RunResult& finished) const {
  const auto& config = job_.trainer;
  if (config.plot_loss)
    finished.plots = plot_history(finished.state.log_history, config.layout, setup_.run.root, config.run_name.filename());
  if (config.swanlab.enabled) upload_to_swanlab(config.swanlab, event_folder(config, setup_.run));
  write_train_results(config, setup_.run, finished.state, trainer.results(), about_run(setup_, models_.policy()));
}

void TrainingSession::evaluate(const RunResult* finished) {
  evaluate_after_training(job_, setup_, models_.policy(), other_models(), finished, is_main());
}

}  // namespace hone::train
