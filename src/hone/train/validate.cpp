#include "hone/train/validate.h"

#include <algorithm>
#include <cmath>

#include "hone/base/config_error.h"
#include "hone/tuner/tuner.h"

namespace hone::train {
namespace {

// Fractions of all steps (below 1) compare only with fractions, as in transformers.
bool saves_fall_on_evaluations(const TrainerConfig& config) {
  if ((config.save_steps < 1) != (config.eval_steps < 1) || config.eval_steps <= 0) return false;
  const double times = config.save_steps / config.eval_steps;
  return std::abs(times - std::round(times)) < 1e-6;
}

// A whole number of steps, or a fraction of all steps, as in transformers.
void require_interval(double steps, const char* field) {
  if (steps <= 1 || steps == std::floor(steps)) return;
  throw ConfigError(fmt::format("`{}` is {}", field, steps), "expected a whole number of steps, or a fraction of all below 1");
}

// 0 is none; -1 is the last step.
void validate_eval_steps(double steps) {
  if (steps == 0)
    throw ConfigError("`eval_steps` and `logging_steps` are 0: the model would never be evaluated",
                      "set one of them, or `eval` no");
  if (steps < 0 && steps != -1)
    throw ConfigError(fmt::format("`eval_steps` is {}", steps),
                      "expected a number of steps, a fraction of all, or -1: the last step");
  require_interval(steps, "eval_steps");
}

void validate_teacher(const DistillationConfig& config) {
  const auto& teacher = config.teacher;
  const bool model = !teacher.folder.empty(), server = !teacher.servers.empty(), stored = !teacher.stored.empty();
  require(!model || !server, "`teacher.folder` and `teacher.servers` name two teachers", "leave one out");
  require(
      model || server || stored, "gkd has no teacher",
      "name a model with `teacher.folder`, an address with `teacher.servers`, or stored log-probabilities with `teacher.stored`");
  require(config.topk || (!server && !stored), "`topk` is needed: servers and folders provide only the most likely tokens",
          "choose how many, 20 for example");
  require(teacher.servers.size() < 2 || teacher.tag_key == "dataset" || teacher.tag_key == "channel" || config.always_generates(),
          "`teacher.tag_key`: rows of a dataset are shared out by their dataset or their channel",
          "use one of the two, or let the student generate every completion: `lmbda` 1");
  require(!config.seq_kd || model, "`seq_kd` lets the teacher generate, which needs a model", "name it with `teacher.folder`");
}

void validate_servers(const TeacherConfig& teacher) {
  if (teacher.servers.size() < 2) return;
  std::vector<std::string> tags;
  for (const auto& server : teacher.servers) {
    require(!server.tags.empty(), "`teacher.servers`: of several teachers, one has no tags",
            "give each the tags of the rows it takes");
    for (const auto& tag : server.tags) {
      if (std::ranges::count(tags, tag) > 0)
        throw ConfigError(fmt::format("`teacher.servers`: two teachers take the tag \"{}\"", tag), "give it to one of them");
      tags.push_back(tag);
    }
  }
}

void validate_policy_teacher(const rl::ReinforcementConfig& config) {
  if (!config.teacher) return;
  const auto& teacher = config.teacher->teacher;
  require(teacher.folder.empty() || teacher.servers.empty(), "`teacher.folder` and `teacher.servers` name two teachers",
          "leave one out");
  validate_servers(teacher);
  require(!config.teacher->reweight || !config.teacher->in_loss, "`reweight` and `in_loss` are two uses of a teacher",
          "leave one out");
  const bool whole = config.policy.objective == PolicyObjective::real || config.policy.objective == PolicyObjective::fipo;
  require(
      !whole && !config.policy.off_policy_mask_delta,
      "a teacher gives each token its own advantage, which the losses real and fipo and `off_policy_mask_delta` do not support",
      "choose another loss, or leave the teacher out");
}

void validate_demonstrations(const rl::ReinforcementConfig& config) {
  if (!config.demonstrations) return;
  const auto& asked = *config.demonstrations;
  require(asked.mu_peak <= 1 && asked.mu_valley <= 1, "`mu_peak` and `mu_valley` are shares of the loss", "expected 0 to 1");
}

void validate_correction(const rl::ReinforcementConfig& config) {
  const auto& correction = config.policy.correction;
  require(correction.threshold > 0, "`correction.threshold` is 0", "expected a number above 0");
  const bool compares = correction.mode != RolloutCorrectionMode::none || correction.report;
  require(!compares || !config.servers || !config.servers->sampling_only,
          "`servers.sampling_only`: such a server gives no log-probabilities to compare with",
          "leave `correction.mode` and `correction.report` out");
}

// Rows whose completions the model generates itself.
void validate_generation(const TrainingJob& job) {
  if (!job.reinforcement && !(job.distillation && job.distillation->generates())) return;
  require(job.loader.packing == data::Packing::none, "generated completions are not packed",
          "leave `packing` out; batches hold no padding in any case");
  require(!job.datasets.streaming, "prompts are sampled from the full dataset, which a stream does not have",
          "leave `streaming` out");
  require(job.datasets.encoded.empty(),
          "rows that are token ids already hold neither prompts to complete nor columns for rewards",
          "name the rows themselves with `datasets`");
  require(!job.predict_with_generate, "completions are always generated in evaluations", "leave `predict_with_generate` out");
  if (!job.reinforcement) return;
  require(!job.do_eval || (job.do_train && job.trainer.eval != IntervalStrategy::never),
          "generated completions are scored during training, in evaluations and after the last step",
          "train with `eval` steps, and leave `do_eval` out");
  require(!job.trainer.find_batch_size, "auto_find_batch_size would change the group size", "set `micro_batch_size`");
}

void validate_feedback(const TrainingJob& job) {
  if (job.preference.method != Preference::kto) return;
  require(!job.datasets.streaming, "kto pairs prompts with completions of other rows, which a stream does not have",
          "leave `streaming` out");
}

void validate_task(const TrainingJob& job) {
  if (job.task.is_generative()) return;
  const auto name = std::ranges::find(kTaskNames, job.task.task, [](const auto& each) { return each.second; })->first;
  require(!job.encode.pretraining, "`task` belongs to sft", "use sft instead of pt");
  require(job.loader.packing == data::Packing::none || job.task.task == Task::seq_cls,
          fmt::format("rows of `task` {} cannot be packed", name), "leave `packing` out; batches hold no padding in any case");
  require(!job.predict_with_generate && !job.do_predict, fmt::format("a model of `task` {} does not generate", name),
          "leave `predict_with_generate` out");
}

void validate_tuner(const TrainingJob& job) {
  const bool by_gradients = job.tuner.lora.init == "lora-ga", ppo = job.reinforcement && job.reinforcement->ppo;
  require(!by_gradients || !job.distillation, "init_weights lora-ga starts from gradients before there is a teacher",
          "use pissa");
  require(!by_gradients || !ppo, "init_weights lora-ga starts from gradients of rows, and PPO's rows are prompts", "use pissa");
  const bool shares_ranks = job.tuner.method == "ADALORA" && job.tuner.kind == tuner::TunerType::adapter;
  require(!shares_ranks || !ppo || job.reinforcement->ppo->value_model.folder.empty(),
          "AdaLoRA shares out the ranks of one model, and the value model is a second one",
          "leave it to a head on the policy: `value_model` policy");
}

void validate_reference(const TrainingJob& job) {
  const auto& reference = job.preference.reference;
  if (!reference.needed || !reference.sync) return;
  require(job.tuner.kind != tuner::TunerType::adapter,
          "`reference.sync`: with an adapter the reference is the base model, which does not change",
          "train the full model, or leave it out");
  require(job.parallel.sharding.stage == 0 && job.parallel.sequence_parallel <= 1 && job.parallel.layout.pp <= 1,
          "`reference.sync` mixes full weights, which are in shards or stages here", "leave the sharding out");
  require(reference.bits == 0 && !job.load.changes.compression, "`reference.sync` mixes weights, which are quantized here",
          "leave the quantization out");
}

// Losses of the remaining methods have no router losses.
void validate_router(const TrainingJob& job) {
  if (!job.sft.router.any()) return;
  const bool ppo = job.reinforcement && job.reinforcement->ppo;
  require(!ppo && (job.task.is_generative() || job.task.task == Task::seq_cls),
          "`router_aux_loss_coef` and `router_z_loss_coef` have no effect on PPO, embeddings, rerankers and decisions",
          "leave them out, or set them to 0");
}

void validate_parallel(const TrainingJob& job) {
  if (job.parallel.sequence_parallel > 1 || job.parallel.layout.cp > 1) {
    const auto& rl = job.reinforcement;
    require(!rl || !rl->demonstrations, "`sequence_parallel`: expert rows of CHORD need full sequences, which it splits");
    require(!job.distillation || (job.distillation->teacher.servers.empty() && job.distillation->teacher.stored.empty()),
            "`sequence_parallel`: a teacher server and stored scores need full sequences, which it splits",
            "load the teacher into the run");
    require(job.task.is_generative() || job.preference.method == Preference::rm,
            "pooling tasks need full sequences, which sequence parallelism splits", "leave `sequence_parallel` out");
  }
  require(!job.eval_dtype || (job.parallel.sharding.stage < 3 && !job.load.changes.compression),
          "`eval_dtype`: needs unsharded, unquantized weights in one process: neither zero3, fsdp nor quantization");
}

}  // namespace

void validate(const TrainerConfig& config) {
  const bool best = config.load_best_model_at_end, evaluates = config.eval != IntervalStrategy::never;
  if (config.save == IntervalStrategy::steps) require_interval(config.save_steps, "save_steps");
  if (config.logging == IntervalStrategy::steps) require_interval(config.logging_steps, "logging_steps");
  if (config.eval == IntervalStrategy::steps) validate_eval_steps(config.eval_steps);  // often those of the two above
  require(evaluates || !best, "`load_best_model_at_end` and `eval`: the best checkpoint is only known when there is evaluation");
  require(evaluates || config.save != IntervalStrategy::best,
          "`save` and `eval`: the best checkpoint is only known when there is evaluation");
  require(
      !best || config.save == config.eval || config.save == IntervalStrategy::best,
      "`save` and `eval`: must be the same with load_best_model_at_end, so that the best evaluation has a checkpoint to load");
  require(!best || config.save != IntervalStrategy::steps || saves_fall_on_evaluations(config),
          "`save_steps` and `eval_steps`: with load_best_model_at_end the first must be a multiple of the second");
}

void validate(const PreferenceConfig& config) {
  const bool weighs_odds = config.method != Preference::none && config.method != Preference::rm;
  if (weighs_odds && !(config.beta > 0)) throw ConfigError(fmt::format("`beta` is {}", config.beta), "expected a number above 0");
  for (const auto& loss : config.losses)
    require(config.label_smoothing != 0.5 || loss.name != "robust",
            "`label_smoothing` is 0.5, where the loss robust divides by zero", "choose a number below 0.5");
}

void validate(const DistillationConfig& config) {
  validate_teacher(config);
  validate_servers(config.teacher);
  require(config.temperature > 0, "`temperature` is 0", "expected a number above 0");
  if (config.beta > 1) throw ConfigError(fmt::format("`beta` is {}", config.beta), "expected 0, forward KL, to 1, reverse KL");
}

void validate(const rl::ReinforcementConfig& config) {
  require(config.sampling.temperature > 0, "`temperature` is 0: all completions of a prompt would be the same",
          "expected a number above 0");
  if (config.ppo && config.ppo->experience.kl_target && !(*config.ppo->experience.kl_target > 0))
    throw ConfigError(fmt::format("`kl_target` is {}", *config.ppo->experience.kl_target), "expected a number above 0");
  require(config.async_lag == 0 || config.servers, "`async_lag` needs a rollout server: the training processes generate or train",
          "start one with hone rollout and name it in `servers.addresses`");
  require(config.async_lag == 0 || !config.dynamic_sample,
          "`async_lag` requests prompts ahead, which `dynamic_sample` may replace", "leave one of them out");
  const bool splits = config.turns && config.turns->splits_episodes();
  require(!splits || !config.ppo,
          "`turns.scheduler`: thinking_tips_scheduler trains each round as a separate sequence, and PPO needs one per prompt",
          "use math_tip_trick, or GRPO");
  require(
      !splits || config.policy.objective != PolicyObjective::real,
      "`turns.scheduler`: thinking_tips_scheduler trains each round as a separate sequence, and the loss real needs groups of "
      "equal size",
      "choose another loss");
  validate_correction(config);
  validate_policy_teacher(config);
  validate_demonstrations(config);
}

void validate(const TrainingJob& job) {
  validate(job.trainer);
  optim::validate(job.warmup);
  optim::validate(job.optimizer);
  tuner::validate(job.tuner);
  validate(job.preference);
  if (job.distillation) validate(*job.distillation);
  if (job.reinforcement) validate(*job.reinforcement);
  validate_generation(job);
  validate_feedback(job);
  validate_task(job);
  validate_tuner(job);
  validate_reference(job);
  validate_router(job);
  validate_parallel(job);
}

}  // namespace hone::train
