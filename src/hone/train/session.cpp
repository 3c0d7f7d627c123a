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
    const auto* part = loaded.tensor ? loaded.tensor->shard_of(*parameter.value) : nullptr;
    weights += static_cast<double>(part ? c10::multiply_integers(part->full_shape) : parameter.value->numel());
  }
  return 6 * weights;
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

// The last checkpoint of a run in ms-swift's layout.
std::string result_of(const TrainState& state) {
  if (state.last_model_checkpoint.empty())
    throw UserError(ExitCode::usage, "there is no checkpoint to send to the hub", "set `save_strategy` to steps or epoch");
  return state.last_model_checkpoint;
}

// Updates in the backward pass need complete, unscaled gradients there.
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

std::function<Json(int64_t)> benchmark_of(const TrainingJob& job, const RunSetup& ready, model::CausalLM& model) {
  if (!job.benchmark) return {};
  return [&job, &ready, &model](int64_t step) {
    return job.benchmark({model, ready.tokenizer, ready.encoder, ready.run.root, step});
  };
}

// Empty if the reference does not change.
std::function<void(int64_t)> reference_follower(const TrainingJob& job, Reference* reference, model::CausalLM& model) {
  const auto& sync = job.preference.reference.sync;
  if (!reference || !sync) return {};
  return [reference, &model, sync = *sync](int64_t step) {
    if (step % sync.steps == 0) reference->follow(model, sync.alpha);
  };
}

}  // namespace

TrainingSession::TrainingSession(const TrainingJob& job, const DistributedContext& processes)
    : job_(job), processes_(processes), ready_(set_up_run(job, processes)) {}

void TrainingSession::load_models() {
  auto model = load_model(job_, processes_, *ready_.tokenizer);
  device::seed(job_.trainer.seed);
  auto tuning = job_.tuner;
  tuning.share_base_storage = processes_.shards_model() || processes_.stages;
  tuning.resumed = ready_.resume;
  tuning.steps = ready_.plan.max_steps;
  if (job_.activation_checkpointing.offload && job_.load.device.is_cpu())
    log::warning("activations are in host memory already: on a CPU there is nowhere to offload them to");
  model::apply_activation_checkpointing(*model, job_.activation_checkpointing, job_.load.device, expected_row_length(job_));
  auto tuned = tuner::apply_tuner(*model, tuning, gradients_of_first_rows(job_, ready_.tokenizer, ready_.data.train));
  const bool keeps_dropout =
      model->decoder().value_head.has_value() && job_.preference.method == Preference::rm;  // as LLaMA-Factory's reward models
  if ((job_.preference.method != Preference::none && !keeps_dropout) || job_.reinforcement) switch_off_dropout(*model);
  reference_ = make_reference(job_, *ready_.tokenizer, processes_, *model, tuned, models_);
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
  if (job_.float8) tuner::apply_float8(*policy.model);  // it depends on the sizes of shards
  load_value_model(job_, ready_.resume, processes_, models_);
}

OtherModels TrainingSession::other_models() const {
  auto* value_model = models_.find(kValueModel);
  return {
      .reference = reference_.get(), .value_model = value_model ? value_model->model.get() : nullptr, .teacher = teacher_.get()};
}

// Loaders whose batches a model writes get the models that do.
void TrainingSession::begin_generating(ParallelStrategy& processes, const WeightFiles& files) {
  auto& policy = models_.policy();
  auto* peers = processes_.same_rows.get();
  const bool counts = processes.counts_rows() && (!policy.sequence || policy.sequence->is_first_rank());
  if (peers) rows_ = std::make_unique<DataRanks>(processes, processes_.data_rank(), processes_.data_size(), counts);
  auto& strategy = rows_ ? *rows_ : processes;
  const auto others = other_models();
  if (ready_.rollouts)
    ready_.rollouts->begin({.model = *policy.model,
                            .tuned = policy.tuned,
                            .reference = others.reference,
                            .teacher = policy_teacher_.get(),
                            .value_model = others.value_model,
                            .strategy = strategy,
                            .processes = processes,
                            .peers = peers,
                            .files = &files,
                            .sequence = policy.sequence.get(),
                            .sharded = policy.is_spread(),
                            .encoder = ready_.encoder,
                            .tokenizer = ready_.tokenizer,
                            .longest_prompt = ready_.rollouts->longest_prompt(),
                            .folder = ready_.run.root,
                            .seed = job_.trainer.seed});
  if (ready_.distillation)
    ready_.distillation->begin({.student = *policy.model,
                                .tuned = policy.tuned,
                                .teacher = teacher_->model(),
                                .strategy = strategy,
                                .processes = processes,
                                .peers = peers,
                                .files = &files,
                                .sharded = policy.is_spread(),
                                .encoder = ready_.encoder,
                                .tokenizer = ready_.tokenizer,
                                .folder = ready_.run.root});
}

RunResult TrainingSession::train() {
  const auto& config = job_.trainer;
  auto& policy = models_.policy();
  if (!processes_.group && !policy.sharded)
    for (auto* loaded : models_.trained()) model::join_trained_projections(*loaded->model);
  auto groups = trained_groups(job_, models_);
  auto working = groups;
  MasterWeights masters = config.no_master_weights ? MasterWeights() : MasterWeights(groups);
  auto recipe = optimizer_recipe(job_, processes_);
  recipe.matrices = matrix_shards(models_, working);
  auto optimizer = with_rank_allocation(optim::make_optimizer(recipe, std::move(groups)), policy.tuned, ready_.plan.max_steps,
                                        processes_.stages.get(), job_.load.device);
  masters.let_write(*optimizer);
  auto method = make_loss(job_, *ready_.tokenizer, other_models());
  auto strategy = make_strategy(job_, processes_, models_, working, optimizer->groups());
  const auto assets = assets_of(job_, ready_, policy);
  const auto policy_files = weight_files(job_, processes_, policy, assets);
  begin_generating(*strategy, policy_files);
  auto savers = processes_.checkpoint_group ? std::make_unique<MultiProcess>(*processes_.checkpoint_group) : nullptr;
  const auto* value_model = models_.find(kValueModel);
  const auto value_assets = value_model ? value_model_assets(job_, *value_model) : CheckpointAssets();
  const auto weights = session_weights(job_, processes_, models_, assets, value_assets);
  std::optional<HubPush> push;
  if (job_.push && is_main()) push.emplace(*job_.push);
  const bool merges = config.merge_lora && policy.tuned.adapter.has_value();
  auto after_save = [&](const fs::path& checkpoint, int64_t step) {
    if (merges) write_merged_checkpoint(job_, *ready_.tokenizer, checkpoint);
    if (push) push->saved(checkpoint, step);
  };
  NodeReplicator copies(processes_.leaders.get());
  const DataShard share{processes_.data_rank(), processes_.data_size()};
  // Generation needs unsplit models, also if sequences are split.
  const DataShard everyone{processes_.world.rank, processes_.world.size};
  for (const char* name : {kReferenceModel, kTeacherModel, kValueModel})
    if (auto* other = models_.find(name); other && policy.sequence) split_sequences_of(*other, *policy.sequence, processes_);
  const bool passes_repeat = !processes_.group && !recipe.per_parameter;
  Trainer trainer(config, ready_.run,
                  {.model = *policy.model,
                   .loss = *method,
                   .loader = *ready_.loader,
                   .optimizer = *optimizer,
                   .lr_scheduler = *ready_.schedule,
                   .masters = masters,
                   .strategy = *strategy,
                   .savers = savers ? *savers : *strategy,
                   .weights = weights,
                   .evaluations = evaluations_of(job_, ready_, share),
                   .predict = job_.predict_with_generate ? make_predictor(job_, ready_, *policy.model, everyone) : Predict(),
                   .benchmark = benchmark_of(job_, ready_, *policy.model),
                   .row_name = row_namer(ready_),
                   .flops_per_token = flops_per_token(policy),
                   .sequence = policy.sequence.get(),
                   .saved = after_save,
                   .stepped = reference_follower(job_, reference_.get(), *policy.model),
                   .copies = ready_.folder_per_node ? &copies : nullptr,
                   .trained = passes_repeat ? trained_tensors(models_) : TensorList()});
  // Weights start equal on all processes; dropout must differ, except between processes that compute the same rows.
  if (int rank = processes_.tensor || processes_.stages ? processes_.data_rank() : processes_.world.rank; rank > 0)
    device::seed(config.seed + static_cast<uint64_t>(rank));
  if (ready_.resume) trainer.resume(*ready_.resume);
  if (is_main()) {
    log::debug("{}", trainable_table(policy.tuned));
    log::info("{}", running_block(config, ready_.plan, run_facts(job_, ready_, policy, processes_), policy.tuned));
  }
  const auto outcome = trainer.train();
  RunResult finished{.outcome = outcome,
                     .state = trainer.state(),
                     .run = ready_.run,
                     .plots = {},
                     .model_folder = job_.model_folder,
                     .adapter = policy.tuned.adapter.has_value(),
                     .scores = job_.preference.method == Preference::rm,
                     .overwrites = config.overwrite_output_dir,
                     .layout = config.layout,
                     .best_loaded = config.load_best_model_at_end,
                     .method_state = method->state()};
  if (!finished.complete()) return finished;
  if (config.layout == Layout::factory) save_result(weights, copies);
  if (!is_main()) return finished;
  report_result(trainer, finished);
  if (push)
    log::info("sent to {}",
              push->finish(config.layout == Layout::factory ? ready_.run.root : fs::path(result_of(finished.state))));
  return finished;
}

// LLaMA-Factory's layout: the final weights are next to the checkpoints.
void TrainingSession::save_result(const WeightFiles& weights, const NodeReplicator& copies) {
  auto& policy = models_.policy();
  auto write = [&] {
    weights.save(ready_.run.root);
    if (job_.tuner.lora.convert_at_end && policy.tuned.adapter)
      tuner::save_pissa_conversion(*policy.model, *policy.tuned.adapter, ready_.run.root);
  };
  if (weights.gather)
    weights.gather(write);
  else if (is_main())
    write();
  if (is_main()) weights.save_assets(ready_.run.root);
  if (ready_.folder_per_node) copies.replicate(ready_.run.root, NodeReplicator::Depth::folder_alone);
}

void TrainingSession::report_result(const Trainer& trainer, RunResult& finished) const {
  const auto& config = job_.trainer;
  if (config.plot_loss)
    finished.plots = plot_history(finished.state.log_history, config.layout, ready_.run.root, config.run_name.filename());
  if (config.swanlab.enabled) upload_to_swanlab(config.swanlab, event_folder(config, ready_.run));
  write_train_results(config, ready_.run, finished.state, trainer.results(), about_run(ready_, models_.policy()));
}

void TrainingSession::evaluate(const RunResult* finished) {
  evaluate_after_training(job_, ready_, models_.policy(), other_models(), finished, is_main());
}

}  // namespace hone::train
