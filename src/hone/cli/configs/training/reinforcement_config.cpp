#include "hone/cli/configs/training/reinforcement_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/training/distillation_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/train/validate.h"

namespace hone::cli {
namespace {

using train::PolicyConfig;
using train::PolicyObjective;
using train::RatioLevel;
using train::rl::Estimator;
using train::rl::ReinforcementConfig;
using train::rl::RewardScale;

constexpr std::pair<std::string_view, PolicyObjective> kObjectives[] = {
    {"grpo", PolicyObjective::grpo}, {"bnpo", PolicyObjective::bnpo},   {"dr_grpo", PolicyObjective::dr_grpo},
    {"dapo", PolicyObjective::dapo}, {"cispo", PolicyObjective::cispo}, {"sapo", PolicyObjective::sapo},
    {"real", PolicyObjective::real}, {"fipo", PolicyObjective::fipo}};
constexpr std::pair<std::string_view, RatioLevel> kLevels[] = {
    {"token", RatioLevel::token}, {"sequence", RatioLevel::sequence}, {"sequence_token", RatioLevel::sequence_token}};
constexpr std::pair<std::string_view, Estimator> kEstimators[] = {
    {"grpo", Estimator::grpo}, {"rloo", Estimator::rloo}, {"reinforce_plus_plus", Estimator::reinforce_plus_plus}};
constexpr std::pair<std::string_view, RewardScale> kScales[] = {
    {"group", RewardScale::group}, {"none", RewardScale::none}, {"batch", RewardScale::batch}, {"gdpo", RewardScale::gdpo}};

constexpr std::pair<std::string_view, train::RolloutCorrectionMode> kCorrections[] = {
    {"token_truncate", train::RolloutCorrectionMode::token_truncate},
    {"token_mask", train::RolloutCorrectionMode::token_mask},
    {"sequence_truncate", train::RolloutCorrectionMode::sequence_truncate},
    {"sequence_mask", train::RolloutCorrectionMode::sequence_mask}};

template <class Value, size_t N>
Value chosen(const AnyArg& option, std::string_view name, const std::pair<std::string_view, Value> (&list)[N]) {
  std::vector<std::string_view> known;
  for (const auto& [each, value] : list) {
    if (each == name) return value;
    known.push_back(each);
  }
  throw UserError(ExitCode::usage, fmt::format("{} {} does not go with grpo", option.flag(), name),
                  fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_objective(const Options& options, ReinforcementConfig& config) {
  const GrpoArguments args(options);
  auto& policy = config.policy;
  policy.objective = policy_objective(options);
  policy.level = chosen(args.importance_sampling_level, *args.importance_sampling_level, kLevels);
  policy.temperature = config.sampling.temperature;
  policy.epsilon_low = *args.epsilon;
  policy.epsilon_high = args.epsilon_high.value_or(policy.epsilon_low);
  if (args.delta.has_value()) policy.delta = *args.delta;
  policy.sapo_good = *args.tau_pos;
  policy.sapo_bad = *args.tau_neg;
  policy.real_temperature = *args.real_tau;
  policy.fipo_half_life = *args.fipo_decay_rate;
  policy.fipo_clip = *args.fipo_clip_range;
  policy.fipo_clip_above_only = *args.fipo_clip_high_only;
  policy.fipo_safe_ratio = *args.fipo_safety_threshold;
  policy.overlong_filter = *args.overlong_filter;
  policy.top_entropy = *args.top_entropy_quantile;
  policy.report_entropy = *args.log_entropy;
  if (args.off_policy_sequence_mask_delta.has_value()) policy.off_policy_mask_delta = *args.off_policy_sequence_mask_delta;
  policy.max_completion_length = config.sampling.max_tokens;
  if (!config.kl_in_reward) policy.reference_weight = config.beta;
}

void read_correction(const Options& options, ReinforcementConfig& config) {
  const GrpoArguments args(options);
  auto& correction = config.policy.correction;
  if (args.rollout_importance_sampling_mode.has_value())
    correction.mode = chosen(args.rollout_importance_sampling_mode, *args.rollout_importance_sampling_mode, kCorrections);
  correction.threshold = *args.rollout_importance_sampling_threshold;
  correction.report = *args.log_rollout_offpolicy_metrics;
  const bool corrects = correction.mode != train::RolloutCorrectionMode::none;
  config.keep_logprobs = corrects || correction.report || (config.servers && !config.servers->sampling_only);
}

void read_advantage(const Options& options, ReinforcementConfig& config) {
  const GrpoArguments args(options);
  auto& advantage = config.advantage;
  advantage.estimator = chosen(args.advantage_estimator, *args.advantage_estimator, kEstimators);
  const bool by_group = advantage.estimator == Estimator::grpo;
  auto scale = *args.scale_rewards;
  if (scale == "auto") scale = by_group ? "group" : advantage.estimator == Estimator::rloo ? "none" : "batch";
  advantage.scale = chosen(args.scale_rewards, scale, kScales);
  bool real = *PreferenceArguments(options).loss_type == std::vector<std::string>{"real"};
  if (real && advantage.scale != RewardScale::none) {
    if (args.scale_rewards.is_set()) log::warning("{} is ignored: the loss real uses raw rewards", args.scale_rewards.flag());
    advantage.scale = RewardScale::none;
  }
  config.kl_in_reward = args.kl_in_reward.has_value() ? *args.kl_in_reward : !by_group;
  if (config.kl_in_reward && advantage.scale == RewardScale::gdpo) {
    log::warning("{} is ignored: gdpo normalizes each reward separately", args.kl_in_reward.flag());
    config.kl_in_reward = false;
  }
}

void read_rollout_batching(const Options& options, ReinforcementConfig& config) {
  const GrpoArguments args(options);
  auto& geometry = config.batching;
  geometry.generations = *args.num_generations;
  geometry.iterations = *args.num_iterations;
  if (args.generation_batch_size.has_value()) geometry.generation_batch_size = *args.generation_batch_size;
  if (args.steps_per_generation.has_value()) geometry.steps_per_generation = *args.steps_per_generation;
  config.eval_generations = args.num_generations_eval.value_or(geometry.generations);
  geometry.whole_groups = *PreferenceArguments(options).loss_type == std::vector<std::string>{"real"};
}

// A teacher of the policy (OPD-RL, RLSD, SDAR). Throws UserError(usage) for incompatible settings, before locating a model.
void read_policy_teacher(const Options& options, ReinforcementConfig& config) {
  const PolicyGuidanceArguments args(options);
  train::rl::PolicyTeacherConfig teacher{.teacher = read_teacher_names(options), .kl_coef = *args.teacher_kl_coef};
  if (args.advantage_reweight.has_value())
    teacher.reweight = {.lambda = *args.rlsd_lambda,
                        .clip_range = *args.rlsd_reweight_clip_range,
                        .warmup_steps = *args.rlsd_lambda_warmup_steps,
                        .decay_steps = *args.rlsd_lambda_decay_steps,
                        .negative_only = *args.rlsd_negative_only};
  teacher.in_loss = *args.sdar_loss_coef > 0;
  config.policy.sdar_coef = *args.sdar_loss_coef;
  config.policy.sdar_gate_beta = *args.sdar_gate_beta;
  // Rows may make the policy its own teacher if the loss supports per-token advantages.
  const bool asked = !teacher.is_policy() || teacher.reweight || teacher.in_loss;
  const auto objective = config.policy.objective;
  const bool by_sequence =
      objective == PolicyObjective::real || objective == PolicyObjective::fipo || config.policy.off_policy_mask_delta;
  if (!asked && by_sequence) return;
  // A teacher that adds to advantages or to the loss needs no other completions of a prompt; one that weighs advantages does.
  const bool adds = teacher.in_loss || (!teacher.reweight && teacher.kl_coef != 0);
  if (asked && adds) config.batching.least_generations = 1;
  config.teacher = std::move(teacher);
  train::validate(config);
  locate_teacher(options, config.teacher->teacher);
}

// Expert rows (CHORD).
void read_demonstrations(const Options& options, ReinforcementConfig& config) {
  const PolicyGuidanceArguments args(options);
  if (!args.chord_sft_dataset.has_value()) return;
  for (const AnyArg& needed : {AnyArg(args.chord_sft_per_device_train_batch_size), AnyArg(args.chord_mu_warmup_steps),
                               AnyArg(args.chord_mu_decay_steps), AnyArg(args.chord_mu_peak), AnyArg(args.chord_mu_valley)})
    if (!needed.has_value())
      throw UserError(ExitCode::usage, fmt::format("{} is needed with {}", needed.flag(), args.chord_sft_dataset.flag()),
                      fmt::format("for example {} 2 {} 200 {} 400 {} 0.5 {} 0.02",
                                  args.chord_sft_per_device_train_batch_size.flag(), args.chord_mu_warmup_steps.flag(),
                                  args.chord_mu_decay_steps.flag(), args.chord_mu_peak.flag(), args.chord_mu_valley.flag()));
  config.demonstrations = {.datasets = *args.chord_sft_dataset,
                           .batch_size = *args.chord_sft_per_device_train_batch_size,
                           .warmup_steps = *args.chord_mu_warmup_steps,
                           .decay_steps = *args.chord_mu_decay_steps,
                           .mu_peak = *args.chord_mu_peak,
                           .mu_valley = *args.chord_mu_valley};
  config.policy.weight_demonstrations = *args.chord_enable_phi_function;
}

}  // namespace

PolicyObjective policy_objective(const Options& options) {
  const PreferenceArguments args(options);
  auto losses = *args.loss_type;
  if (losses.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} losses", args.loss_type.flag(), losses.size()), "expected one");
  return chosen(args.loss_type, losses.empty() ? "grpo" : losses.front(), kObjectives);
}

void apply_reinforcement(const Options& options, train::TrainingJob& job) {
  const GrpoArguments grpo_args(options);
  const PreferenceArguments preference_args(options);
  auto& config = job.reinforcement.emplace();
  config.beta = *preference_args.beta;
  config.dynamic_sample = *grpo_args.dynamic_sample;
  config.max_resample_times = *grpo_args.max_resample_times;
  config.log_completions = *grpo_args.log_completions;
  if (*grpo_args.async_generate) config.async_lag = *grpo_args.async_max_lag;
  read_sampling(options, config);
  read_turns(options, config);
  read_rollout_batching(options, config);
  read_advantage(options, config);
  read_objective(options, config);
  read_policy_teacher(options, config);
  read_demonstrations(options, config);
  read_rewards(options, "GRPO", job, config);
  read_correction(options, config);
  read_reference(options, config.beta > 0, fmt::format("grpo with {} 0", preference_args.beta.flag()), job);
  job.datasets.prompts_only = true;
}

}  // namespace hone::cli
