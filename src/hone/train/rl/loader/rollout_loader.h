// A loader whose batches are generated completions. When a rollout is used up, it makes the next one.
#pragma once
#include "hone/data/batches/loader.h"
#include "hone/train/rl/batches/policy_batches.h"
#include "hone/train/rl/batches/ppo_batches.h"
#include "hone/train/rl/loader/batch_media.h"

namespace hone::train::rl {

class RolloutLoader final : public data::Loader {
 public:
  RolloutLoader(const ReinforcementConfig& config, const RolloutBatching& geometry, std::shared_ptr<const Prompts> prompts,
                uint64_t seed, bool shuffle);

  // Before begin(): prompts for evaluation, in addition to those of training.
  void make_room_for(const Prompts& prompts) { longest_prompt_ = std::max(longest_prompt_, prompts.longest()); }
  int64_t longest_prompt() const { return longest_prompt_; }  // in tokens
  // Before the first next(): demonstrations, trained on together with completions.
  void add_demonstrations(std::unique_ptr<data::Loader> rows);
  // Before the first next(): models and engine of the rollouts.
  void begin(RolloutWorker::RolloutDeps parts, const ScoringModels& models);

  data::Batch next() override;
  int64_t batches_per_epoch() const override { return rollouts_per_epoch() * batching_.batches(); }
  double epoch() const override;
  Json state() const override;
  void restore(const Json& state) override;
  bool computes_with_model() const override { return true; }

  // Between two rollouts, unless completions of the next one exist: each process has its own.
  bool can_reshard_state(const Json& state) const override { return !state.contains("ahead"); }

  // One pass over a validation set, with the same weights, rewards and engine, `batch` completions at a time per process.
  std::unique_ptr<data::Loader> evaluation(std::shared_ptr<const Prompts> prompts, int64_t batch);

 private:
  // The mutable state, so that a failed step can be rolled back.
  struct Position {
    int64_t rollout = 0;  // rollouts made
    int64_t draws = 0;    // of completions; more than rollouts with dynamic sampling
    int64_t spare = 0;    // prompts drawn for resampling
    int64_t given = 0;    // batches of the last rollout that were returned
    std::vector<data::Batch> batches;
    std::vector<BatchMedia> media;  // of each batch
    ExperienceState experience;
  };
  int64_t rollouts_per_epoch() const { return prompts_->count() / batching_.prompts(); }
  int64_t consumed() const {
    return position_.rollout == 0 ? 0 : (position_.rollout - 1) * batching_.batches() + position_.given;
  }
  bool used_up() const { return position_.rollout == 0 || position_.given == batching_.batches(); }
  int64_t step_of_next_rollout() const { return position_.rollout * batching_.batches() / batching_.accumulation + 1; }
  int64_t updates() const;
  size_t next_batch() const;
  std::vector<size_t> ppo_order(int64_t rollout, int64_t pass) const;
  void regroup(const Json& state);
  void make_rollout();
  RolloutBatch draw();
  RolloutBatch draw_uneven();
  RolloutBatch draw_ahead();
  std::vector<std::shared_ptr<const Prompt>> prompts_of(int64_t rollout) const;
  std::vector<std::shared_ptr<const Prompt>> spare_prompts();

  ReinforcementConfig config_;
  RolloutBatching batching_;
  std::shared_ptr<const Prompts> prompts_;
  uint64_t seed_;
  bool shuffle_;
  int64_t longest_prompt_;
  std::unique_ptr<RolloutWorker> worker_;
  std::unique_ptr<RolloutReport> report_;
  std::unique_ptr<PolicyBatches> policy_batches_;   // null: PPO
  std::unique_ptr<PpoBatches> ppo_batches_;         // null: not PPO
  std::unique_ptr<Demonstrations> demonstrations_;  // null: none
  Position position_, update_start_;
};

}  // namespace hone::train::rl
