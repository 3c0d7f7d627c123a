// Generation: prompts to completions, and completions to rewards. The classes of batches/ make batches of them.
#pragma once
#include <memory>

#include "hone/base/file.h"
#include "hone/train/rl/config.h"
#include "hone/train/rl/reward_scorer.h"
#include "hone/train/rl/rollout_batch.h"
#include "hone/train/rl/turns/turns_ahead.h"

namespace hone::train::rl {

class RolloutWorker {
 public:
  struct RolloutDeps {
    model::CausalLM& model;
    const tuner::Tuned& tuned;                // its trainable parameters
    ParallelStrategy& strategy;               // of data parallel ranks
    ParallelStrategy& processes;              // all of them
    parallel::ProcessGroup* peers = nullptr;  // that train on the same rows; null: none do
    const WeightFiles* files = nullptr;       // of the model; null: it is not saved
    bool sharded;                             // weights are gathered and released
    std::shared_ptr<const data::Encoder> encoder;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    int64_t longest_prompt;
    fs::path folder;  // of the run
    uint64_t seed;
  };
  RolloutWorker(const ReinforcementConfig& config, RolloutDeps parts);

  using SharedPrompts = std::vector<std::shared_ptr<const Prompt>>;
  // Every process gets the same prompts and generates its part. `number` seeds the draws; `version` is recorded as the version of
  // the present weights.
  RolloutBatch generate(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version);
  // The same, asynchronously: begin requests the completions, and they are taken when needed.
  void generate_ahead(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version);
  RolloutBatch take_ahead();
  bool has_ahead() const { return ahead_.has_value(); }
  // The rollout that was generated ahead, for a checkpoint, when it is complete; null: none. And its inverse.
  Json ahead_state();
  void restore_ahead(const Json& state, const Prompts& prompts);
  void set_progress(const TrainingProgress& progress) { scorer_.set_progress(progress); }
  // Gathers all completions of a draw from all processes.
  std::vector<RolloutSample> all_gather_samples(const std::vector<RolloutSample>& own, const Prompts& prompts);
  std::vector<double> totals(const RewardTable& rewards) const { return total_rewards(rewards, config_.advantage.weights); }

  // As it was set up: every reward has its weight.
  const ReinforcementConfig& config() const { return config_; }
  const RolloutDeps& deps() const { return deps_; }
  ParallelStrategy& group() const { return deps_.strategy; }
  const std::vector<std::string>& reward_names() const { return scorer_.names(); }
  // Metrics of the turns of the last training rollout, or of the last evaluation.
  std::vector<std::pair<std::string, double>> turn_metrics(bool trains) const;
  std::vector<std::pair<std::string, double>> engine_metrics() const { return engine_->metrics(); }
  double generating_seconds() const { return generating_seconds_; }  // of the last rollout
  double scoring_seconds() const { return scoring_seconds_; }

 private:
  RolloutBatch lay_out(const SharedPrompts& prompts, int64_t generations, uint64_t number, const ParallelStrategy& group,
                       std::vector<uint64_t>& seeds) const;
  RolloutBatch begin(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version);
  void settle(bool may_stop);
  RolloutBatch scored(RolloutBatch draw);

  ReinforcementConfig config_;
  RolloutDeps deps_;
  std::unique_ptr<TurnLoop> turns_;  // null: single-turn
  std::unique_ptr<RolloutEngine> engine_;
  std::unique_ptr<TurnsAhead> turns_ahead_;  // null: none are generated ahead
  RewardScorer scorer_;
  std::optional<RolloutBatch> ahead_;                    // requested ahead
  bool ahead_settled_ = false;                           // its completions are complete
  double generating_seconds_ = 0, scoring_seconds_ = 0;  // of the last rollout
};

}  // namespace hone::train::rl
