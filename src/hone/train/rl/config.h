// Configuration of reinforcement learning.
#pragma once
#include "hone/engine/engine.h"
#include "hone/train/losses/policy.h"
#include "hone/train/losses/ppo.h"
#include "hone/train/methods/reward_model.h"
#include "hone/train/rl/advantages.h"
#include "hone/train/rl/experience.h"
#include "hone/train/rl/loader/demonstrations.h"
#include "hone/train/rl/loader/rollout_batching.h"
#include "hone/train/rl/policy_teacher_config.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/servers/config.h"
#include "hone/train/rl/turns/config.h"

namespace hone::train::rl {

// The critic of PPO, which trains together with the policy.
struct ValueModelConfig {
  std::filesystem::path folder;  // of a separate model; empty: a head on the policy's hidden states
  std::vector<std::filesystem::path> adapters;
  uint64_t seed = 42;  // of a new head, if the folder has none
};

struct PpoConfig {
  ExperienceConfig experience;
  int64_t forward_batch = 0;  // completions in a pass without gradients; 0: as many as in one that trains
  PpoLossConfig loss;
  ValueModelConfig value_model;
};

struct ReinforcementConfig {
  RolloutBatchingConfig batching;
  int64_t eval_generations = 8;
  RewardConfig rewards;
  std::vector<RewardModelConfig> reward_models;  // after the reward functions
  AdvantageConfig advantage;                     // its weights may be empty: all 1
  double beta = 0;                               // beta; 0: no reference
  bool kl_in_reward = false;
  PolicyConfig policy;
  std::optional<PolicyTeacherConfig> teacher;         // scores the sampled tokens; unset: only rewards
  std::optional<DemonstrationConfig> demonstrations;  // trained on together with completions
  std::optional<PpoConfig> ppo;                       // instead of group-relative advantages

  engine::SamplingParams sampling;  // without seed, end tokens and the template's stop words
  engine::EngineConfig engine;      // an unset max_model_len is the longest prompt and completion
  bool engine_sleeps = false;       // it frees its memory while the model trains, and captures its graphs again

  std::optional<RolloutServerConfig> servers;  // where completions come from; unset: the engine above
  int64_t async_lag = 0;                       // rollouts that are generated while an earlier one trains: 0 or, with servers, 1
  bool keep_logprobs = false;                  // of the sampler, which the loss compares with the trainer's

  bool dynamic_sample = false;  // resample groups whose rewards have zero variance
  int64_t max_resample_times = 3;
  bool log_completions = false;

  std::optional<TurnConfig> turns;  // unset: single-turn
};

}  // namespace hone::train::rl
