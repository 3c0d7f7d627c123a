#include "hone/cli/configs/training/reinforcement_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/log.h"
#include "hone/cli/configs/training/reference_config.h"
#include "hone/cli/configs/training/rollout_config.h"

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

template <class Value, size_t N>
Value chosen(const Options& options, std::string_view option, std::string_view name,
             const std::pair<std::string_view, Value> (&list)[N]) {
  std::vector<std::string_view> known;
  for (const auto& [each, value] : list) {
    if (each == name) return value;
    known.push_back(each);
  }
  throw UserError(ExitCode::usage, fmt::format("{} {} does not go with grpo", options.display_name(option), name),
                  fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_objective(const Options& options, ReinforcementConfig& config) {
  auto& policy = config.policy;
  policy.objective = policy_objective(options);
  policy.level = chosen(options, "importance_sampling_level", options.text("importance_sampling_level"), kLevels);
  policy.temperature = config.sampling.temperature;
  policy.epsilon_low = options.real("epsilon");
  policy.epsilon_high = options.has("epsilon_high") ? options.real("epsilon_high") : policy.epsilon_low;
  if (options.has("delta")) policy.delta = options.real("delta");
  policy.sapo_good = options.real("tau_pos");
  policy.sapo_bad = options.real("tau_neg");
  policy.real_temperature = options.real("real_tau");
  policy.fipo_half_life = options.real("fipo_decay_rate");
  policy.fipo_clip = options.real("fipo_clip_range");
  policy.fipo_clip_above_only = options.flag("fipo_clip_high_only");
  policy.fipo_safe_ratio = options.real("fipo_safety_threshold");
  policy.overlong_filter = options.flag("overlong_filter");
  policy.top_entropy = options.real("top_entropy_quantile");
  policy.report_entropy = options.flag("log_entropy");
  if (options.has("off_policy_sequence_mask_delta"))
    policy.off_policy_mask_delta = options.real("off_policy_sequence_mask_delta");
  policy.max_completion_length = config.sampling.max_tokens;
  if (!config.kl_in_reward) policy.reference_weight = config.beta;
}

void read_advantage(const Options& options, ReinforcementConfig& config) {
  auto& advantage = config.advantage;
  advantage.estimator = chosen(options, "advantage_estimator", options.text("advantage_estimator"), kEstimators);
  const bool by_group = advantage.estimator == Estimator::grpo;
  auto scale = options.text("scale_rewards");
  if (scale == "auto") scale = by_group ? "group" : advantage.estimator == Estimator::rloo ? "none" : "batch";
  advantage.scale = chosen(options, "scale_rewards", scale, kScales);
  bool real = options.list("loss_type") == std::vector<std::string>{"real"};
  if (real && advantage.scale != RewardScale::none) {
    if (options.is_set("scale_rewards"))
      log::warning("{} is ignored: the loss real takes rewards as they are", options.display_name("scale_rewards"));
    advantage.scale = RewardScale::none;
  }
  config.kl_in_reward = options.has("kl_in_reward") ? options.flag("kl_in_reward") : !by_group;
  if (config.kl_in_reward && advantage.scale == RewardScale::gdpo) {
    log::warning("{} is ignored: gdpo weighs each reward by itself", options.display_name("kl_in_reward"));
    config.kl_in_reward = false;
  }
}

void read_rollout_batching(const Options& options, ReinforcementConfig& config) {
  auto& geometry = config.batching;
  geometry.generations = options.integer("num_generations");
  geometry.iterations = options.integer("num_iterations");
  if (options.has("generation_batch_size")) geometry.generation_batch_size = options.integer("generation_batch_size");
  if (options.has("steps_per_generation")) geometry.steps_per_generation = options.integer("steps_per_generation");
  config.eval_generations = options.has("num_generations_eval") ? options.integer("num_generations_eval") : geometry.generations;
  geometry.whole_groups = options.list("loss_type") == std::vector<std::string>{"real"};
}

}  // namespace

PolicyObjective policy_objective(const Options& options) {
  auto losses = options.list("loss_type");
  if (losses.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} losses", options.display_name("loss_type"), losses.size()),
                    "expected one");
  return chosen(options, "loss_type", losses.empty() ? "grpo" : losses.front(), kObjectives);
}

void apply_reinforcement(const Options& options, train::TrainingJob& job) {
  check_rollouts(options, job);
  auto& config = job.reinforcement.emplace();
  config.beta = options.real("beta");
  config.dynamic_sample = options.flag("dynamic_sample");
  config.max_resample_times = options.integer("max_resample_times");
  config.log_completions = options.flag("log_completions");
  read_sampling(options, config);
  read_rollout_batching(options, config);
  read_advantage(options, config);
  read_rewards(options, "GRPO", job, config);
  read_objective(options, config);
  read_reference(options, config.beta > 0, fmt::format("grpo with {} 0", options.display_name("beta")), job);
  job.datasets.prompts_only = true;
}

}  // namespace hone::cli
