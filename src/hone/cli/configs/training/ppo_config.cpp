#include "hone/cli/configs/training/ppo_config.h"

#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

using train::rl::KlEstimator;
using train::rl::PpoConfig;
using train::rl::ReinforcementConfig;

// The defaults of trl 0.9, which LLaMA-Factory does not change.
void read_factory_objective(const PpoArguments& args, PpoConfig& ppo) {
  constexpr double kFirstKlCoef = 0.2, kRatioThreshold = 10;
  ppo.experience.kl_coef = kFirstKlCoef;
  ppo.experience.kl_target = *args.ppo_target;
  ppo.experience.score_norm = *args.ppo_score_norm;
  ppo.experience.has_end_state = false;
  ppo.loss.temperature = 1;
  ppo.loss.ratio_threshold = kRatioThreshold;
  ppo.loss.legacy_names = true;
}

void read_swift_objective(const Options& options, const ReinforcementConfig& config, PpoConfig& ppo) {
  const GrpoArguments grpo_args(options);
  const PpoArguments ppo_args(options);
  auto& experience = ppo.experience;
  experience.kl_coef = *ppo_args.kl_coef;
  experience.kl_estimator = *ppo_args.kl_estimator == "k3" ? KlEstimator::k3 : KlEstimator::k1;
  if (grpo_args.kl_in_reward.has_value()) experience.kl_in_reward = *grpo_args.kl_in_reward;
  if (ppo_args.ppo_target.has_value()) experience.kl_target = *ppo_args.ppo_target;
  experience.score_norm = *ppo_args.ppo_score_norm;
  experience.gamma = *ppo_args.gamma;
  experience.lam = *ppo_args.lam;
  if (ppo_args.missing_eos_penalty.has_value()) experience.missing_eos_penalty = *ppo_args.missing_eos_penalty;
  ppo.loss.temperature = config.sampling.temperature;
  ppo.loss.cliprange = *ppo_args.cliprange;
  ppo.loss.cliprange_value = *ppo_args.cliprange_value;
  ppo.loss.vf_coef = *ppo_args.vf_coef;
  ppo.loss.report_entropy = *grpo_args.log_entropy;
}

void read_objective_of_ppo(const Options& options, ReinforcementConfig& config) {
  const PpoArguments args(options);
  auto& ppo = config.ppo.emplace();
  ppo.experience.whiten_rewards = *args.whiten_rewards;
  ppo.forward_batch = args.local_rollout_forward_batch_size.value_or(0);
  uses_factory_dialect(options) ? read_factory_objective(args, ppo) : read_swift_objective(options, config, ppo);
  config.beta = ppo.experience.kl_coef;
}

// One rollout covers the gradient accumulation steps of every mini-batch; LLaMA-Factory buffers several rollouts.
void read_batches(const Options& options, train::TrainingJob& job, ReinforcementConfig& config) {
  const PpoArguments args(options);
  auto& accumulation = job.trainer.gradient_accumulation_steps;
  const bool factory = uses_factory_dialect(options);
  const auto mini_batches = factory ? 1 : *args.num_mini_batches;
  if (accumulation % mini_batches != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} does not divide {} {}", args.num_mini_batches.flag(), mini_batches,
                                TrainingArguments(options).gradient_accumulation_steps.flag(), accumulation),
                    fmt::format("a rollout is as many batches as gradients are accumulated over: choose {} 1 or a divisor",
                                args.num_mini_batches.flag()));
  auto& batching = config.batching;
  batching.generations = batching.least_generations = config.eval_generations = 1;
  batching.iterations = *args.num_ppo_epochs;
  batching.steps_per_generation = accumulation * (factory ? *args.ppo_buffer_size : 1);
  accumulation /= mini_batches;
}

// As in ms-swift, the critic defaults to the reward model, if there is one; in LLaMA-Factory it is a head of the policy.
void read_value_model(const Options& options, train::TrainingJob& job, ReinforcementConfig& config) {
  const ModelArguments model_args(options);
  const PpoArguments ppo_args(options);
  auto& critic = config.ppo->value_model;
  critic.seed = static_cast<uint64_t>(*model_args.seed);
  const auto asked = uses_factory_dialect(options) ? "" : *ppo_args.value_model;
  if (has_own_value_model(options)) {
    if (asked.empty() || asked == "reward") {
      critic.folder = config.reward_models.front().folder;
      critic.adapters = config.reward_models.front().adapters;
    } else {
      critic.folder = hub::locate_model(asked);
    }
    return;
  }
  auto adapters = *model_args.adapters;
  job.load.changes.value_head = adapters.empty() ? job.model_folder : hub::locate_model(adapters.back());
  job.load.changes.head_seed = critic.seed;
}

}  // namespace

bool has_own_value_model(const Options& options) {
  const PpoArguments ppo_args(options);
  const RewardArguments reward_args(options);
  if (uses_factory_dialect(options)) return false;
  const auto asked = *ppo_args.value_model;
  if (asked == "reward" && reward_args.reward_model->empty())
    throw UserError(ExitCode::usage, fmt::format("{} is reward, and there is no reward model", ppo_args.value_model.flag()),
                    fmt::format("name one with {}, or set it to policy", reward_args.reward_model.flag()));
  return asked.empty() ? !reward_args.reward_model->empty() : asked != "policy";
}

void apply_ppo(const Options& options, train::TrainingJob& job) {
  auto& config = job.reinforcement.emplace();
  config.log_completions = *GrpoArguments(options).log_completions;
  read_sampling(options, config);
  read_turns(options, config);
  read_batches(options, job, config);
  read_rewards(options, "PPO", job, config);
  read_objective_of_ppo(options, config);
  read_value_model(options, job, config);
  read_reference(options, config.beta > 0, "ppo with kl_coef 0", job);
  job.datasets.prompts_only = true;
}

}  // namespace hone::cli
