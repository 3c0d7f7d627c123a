#include "hone/train/session.h"

#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/device/generator.h"
#include "hone/model/decoder.h"
#include "hone/train/checkpoints/merged_checkpoint.h"
#include "hone/train/checkpoints/node_replication.h"
#include "hone/train/distributed/data_ranks.h"
#include "hone/train/distributed/make_strategy.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/evaluation/final_evaluation.h"
#include "hone/train/load_model.h"
#include "hone/train/loop/base_gradients.h"
#include "hone/train/loop/parameter_updates.h"
#include "hone/train/loop/trainer.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/plot.h"
#include "hone/train/reports/run_facts.h"
#include "hone/train/reports/run_log.h"
#include "hone/train/session_files.h"
#include "hone/train/trainer_hooks.h"
#include "hone/tuner/quantize/float8.h"
#include "hone/tuner/trained_files.h"
#include "hone/tuner/vision_parts.h"

namespace hone::train {
namespace {

// Separate learning rates of parts that are frozen.
void warn_of_unused_rates(const optim::ParamGroupConfig& groups, const tuner::Tuned& tuned, const model::DecoderConfig& config) {
  const auto trains = [&](tuner::ModelPart part) {
    return std::ranges::any_of(tuned.trainable, [&](const auto& named) { return tuner::part_of(named.first, config) == part; });
  };
  if (groups.vit_rate && !trains(tuner::ModelPart::vit))
    log::warning("`vit_lr` has no effect: nothing of a vision tower trains (`freeze_vit`)");
  if (groups.aligner_rate && !trains(tuner::ModelPart::aligner))
    log::warning("`aligner_lr` has no effect: nothing of an aligner trains (`freeze_aligner`)");
}

// The result of a run in ms-swift's layout.
std::string last_checkpoint(const TrainState& state) {
  if (state.last_model_checkpoint.empty())
    throw UserError(ExitCode::usage, "there is no checkpoint to send to the hub", "set `save_strategy` to steps or epoch");
  return state.last_model_checkpoint;
}

}  // namespace

TrainingSession::TrainingSession(const TrainingJob& job, const DistributedContext& processes)
    : job_(job), processes_(processes), setup_(set_up_run(job, processes)) {}

void TrainingSession::load_models() {
  auto model = load_model(job_, processes_, *setup_.tokenizer);
  device::seed(job_.trainer.seed);
  auto tuning = job_.tuner;
  tuning.share_base_storage = processes_.splits_weights();
  tuning.resumed = setup_.resume;
  tuning.steps = setup_.step_counts.max_steps;
  if (job_.activation_checkpointing.offload && job_.load.device.is_cpu())
    log::warning("activations are not offloaded: on a CPU they are in host memory already");
  model::apply_activation_checkpointing(*model, job_.activation_checkpointing, job_.load.device, expected_row_length(job_));
  auto tuned = tuner::apply_tuner(*model, tuning, gradients_of_first_rows(job_, setup_.tokenizer, setup_.data.train));
  if (processes_.world.is_main()) warn_of_unused_rates(job_.groups, tuned, model->config());
  const bool keeps_dropout =
      model->decoder().value_head.has_value() && job_.preference.method == Preference::rm;  // as LLaMA-Factory's reward models
  if ((job_.preference.method != Preference::none && !keeps_dropout) || job_.reinforcement || job_.distillation)
    switch_off_dropout(*model);
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
                            .strategy = data_ranks,
                            .processes = strategy,
                            .peers = peers,
                            .files = &files,
                            .sharded = policy.is_distributed(),
                            .encoder = setup_.encoder,
                            .tokenizer = setup_.tokenizer,
                            .longest_prompt = setup_.rollouts->longest_prompt(),
                            .folder = setup_.run.root,
                            .seed = job_.trainer.seed},
                           {.reference = others.reference,
                            .teacher = policy_teacher_.get(),
                            .value_model = others.value_model,
                            .sequence = policy.sequence.get()});
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

// The rest of what the trainer works with, in the order in which it is made.
struct TrainingSession::OwnedDeps {
  explicit OwnedDeps(const TrainingSession& session);

  ParameterUpdates updates;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<ParallelStrategy> strategy;
  SessionFiles files;
  std::unique_ptr<ParallelStrategy> save_group;  // null: `strategy`
  std::optional<HubPush> push;
  NodeReplicator replicator;
};

TrainingSession::OwnedDeps::OwnedDeps(const TrainingSession& session)
    : updates(make_updates(session.job_, optimizer_config(session.job_, session.processes_), session.processes_, session.models_,
                           session.setup_.step_counts.max_steps)),
      loss(make_loss(session.job_, *session.setup_.tokenizer, session.other_models())),
      strategy(make_strategy(session.job_, session.processes_, session.models_, updates.working, updates.optimizer->groups())),
      files(session.job_, session.processes_, session.setup_, session.models_),
      replicator(session.processes_.leaders.get()) {
  if (session.processes_.checkpoint_group) save_group = std::make_unique<MultiProcess>(*session.processes_.checkpoint_group);
  if (session.job_.push && session.is_main()) push.emplace(*session.job_.push);
}

RunResult TrainingSession::train() {
  join_projections();
  OwnedDeps owned(*this);
  connect_generation(*owned.strategy, owned.files.policy);
  split_other_models();
  Trainer trainer(job_.trainer, setup_.run, trainer_deps(owned));
  seed_dropout();
  if (setup_.resume) trainer.resume(*setup_.resume);
  if (is_main()) log_start();
  const auto outcome = trainer.train();
  auto finished = result_of(outcome, trainer, *owned.loss);
  if (finished.complete()) keep_result(trainer, owned, finished);
  return finished;
}

void TrainingSession::join_projections() {
  if (processes_.group || models_.policy().sharded) return;
  for (auto* loaded : models_.trained()) model::join_trained_projections(*loaded->model);
}

// The models that the policy's rows pass through have the same split of sequences.
void TrainingSession::split_other_models() {
  const auto& policy = models_.policy();
  if (!policy.sequence) return;
  for (const char* name : {kReferenceModel, kTeacherModel, kValueModel})
    if (auto* other = models_.find(name)) split_sequences_of(*other, *policy.sequence, processes_);
}

TrainerDeps TrainingSession::trainer_deps(OwnedDeps& owned) {
  auto& policy = models_.policy();
  const DataShard data_shard{processes_.data_rank(), processes_.data_size()};
  // Every process generates with an unsplit model, also if sequences are split.
  const DataShard process_shard{processes_.world.rank, processes_.world.size};
  const bool merges = job_.trainer.merge_lora && policy.tuned.adapter.has_value();
  const bool can_replay_passes = !processes_.group && !owned.updates.in_backward;
  return {.model = *policy.model,
          .loss = *owned.loss,
          .loader = *setup_.loader,
          .optimizer = *owned.updates.optimizer,
          .lr_scheduler = *setup_.schedule,
          .masters = owned.updates.masters,
          .strategy = *owned.strategy,
          .save_group = owned.save_group ? *owned.save_group : *owned.strategy,
          .weights = owned.files.all,
          .evaluations = evaluations_of(job_, setup_, data_shard),
          .predict = job_.predict_with_generate ? make_predictor(job_, setup_, *policy.model, process_shard) : Predict(),
          .benchmark = benchmark_of(job_, setup_, *policy.model),
          .row_name = row_namer(setup_),
          .flops_per_token = policy.flops_per_token(),
          .sequence = policy.sequence.get(),
          .after_save =
              [this, &owned, merges](const fs::path& checkpoint, int64_t step) {
                if (merges) write_merged_checkpoint(job_, *setup_.tokenizer, checkpoint);
                if (owned.push) owned.push->saved(checkpoint, step);
              },
          .after_update = reference_sync(job_, reference_.get(), *policy.model),
          .replicator = setup_.folder_per_node ? &owned.replicator : nullptr,
          .trained = can_replay_passes ? trained_tensors(models_) : TensorList()};
}

void TrainingSession::seed_dropout() const {
  if (const int rank = processes_.dropout_rank(); rank > 0) device::seed(job_.trainer.seed + static_cast<uint64_t>(rank));
}

void TrainingSession::log_start() const {
  const auto& policy = models_.policy();
  log::debug("{}", trainable_table(policy.tuned));
  log::info("{}", running_block(job_.trainer, setup_.step_counts, run_facts(job_, setup_, policy, processes_), policy.tuned));
}

RunResult TrainingSession::result_of(Outcome outcome, const Trainer& trainer, const Loss& loss) const {
  return {.outcome = outcome,
          .state = trainer.state(),
          .run = setup_.run,
          .plots = {},
          .model_folder = job_.model_folder,
          .adapter = models_.policy().tuned.adapter.has_value(),
          .scores = job_.preference.method == Preference::rm,
          .overwrites = job_.trainer.overwrite_output_dir,
          .layout = job_.trainer.layout,
          .best_loaded = job_.trainer.load_best_model_at_end,
          .loss_state = loss.state()};
}

void TrainingSession::keep_result(const Trainer& trainer, OwnedDeps& owned, RunResult& finished) {
  const bool keeps_final_weights = job_.trainer.layout == Layout::factory;
  if (keeps_final_weights) save_result(owned.files.all, owned.replicator);
  if (!is_main()) return;
  report_result(trainer, finished);
  if (owned.push)
    log::info("sent to {}",
              owned.push->finish(keeps_final_weights ? setup_.run.root : fs::path(last_checkpoint(finished.state))));
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
