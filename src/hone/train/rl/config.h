// What can be set about learning from rewards.
#pragma once
#include "hone/engine/engine.h"
#include "hone/train/losses/policy.h"
#include "hone/train/methods/reward_model.h"
#include "hone/train/rl/advantages.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rollout_batching.h"

namespace hone::train::rl {

struct ReinforcementConfig {
  RolloutBatchingConfig batching;
  int64_t eval_generations = 8;
  RewardConfig rewards;
  std::vector<RewardModelConfig> reward_models;  // behind the rewards
  AdvantageConfig advantage;                     // its weights may be empty: all 1
  double beta = 0;                               // beta; 0: no reference
  bool kl_in_reward = false;
  PolicyConfig policy;

  engine::SamplingParams sampling;  // without seed, end tokens and the template's stop words
  engine::EngineConfig engine;      // without a longest context, it is the longest prompt's and answer's
  bool engine_sleeps = false;       // it gives its memory back while the model trains, and makes its graphs again

  bool dynamic_sample = false;  // dynamic_sample: groups whose rewards are all alike teach nothing
  int64_t max_resample_times = 3;
  bool log_completions = false;
};

}  // namespace hone::train::rl
