// One rollout: prompts to completions, completions to rewards, rewards to advantages, all of it to batches.
#pragma once
#include <memory>

#include "hone/base/file.h"
#include "hone/data/batches/batch.h"
#include "hone/train/methods/reference.h"
#include "hone/train/rl/completions_log.h"
#include "hone/train/rl/config.h"
#include "hone/train/rl/policy_teacher.h"
#include "hone/train/rl/reward_scorer.h"
#include "hone/train/rl/rollout_sample.h"
#include "hone/train/rl/turns/turns_ahead.h"

namespace hone::train::rl {

// This process's part of a rollout, and the rewards of all of it.
struct RolloutBatch {
  std::vector<RolloutSample> own;
  RewardTable rewards;  // of all processes' completions, in order
};

// How a rollout is split into batches.
struct RolloutShape {
  int64_t generations = 8, micro_batch = 1, steps = 1;
  double updates_share = 1;  // share of the rollout's tokens per batch, over all processes
};

class RolloutWorker {
 public:
  struct RolloutDeps {
    model::CausalLM& model;
    const tuner::Tuned& tuned;                             // its trainable parameters
    Reference* reference;                                  // null: none
    PolicyTeacher* teacher;                                // null: none
    model::CausalLM* value_model;                          // null: none, or a head of the model
    ParallelStrategy& strategy;                            // of data parallel ranks
    ParallelStrategy& processes;                           // all of them
    parallel::ProcessGroup* peers = nullptr;               // that train on the same rows; null: none do
    const WeightFiles* files = nullptr;                    // of the model; null: it is not saved
    const parallel::SequenceParallel* sequence = nullptr;  // that splits the sequences of passes; null: nothing does
    bool sharded;                                          // weights are gathered and released
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
  // `remembers`: stores the present log-probabilities of the completions as the old ones. `step` is that of completions.jsonl.
  std::vector<data::Batch> batches_of(const RolloutBatch& draw, const RolloutShape& shape, bool remembers,
                                      std::optional<int64_t> step);
  // The same for PPO, whose batches hold the experience of every state. `first_trained`: the batch of the next update, if one
  // follows. Updates `state`.
  std::vector<data::Batch> ppo_batches_of(const RolloutBatch& draw, const RolloutShape& shape, std::optional<int64_t> step,
                                          std::optional<size_t> first_trained, ExperienceState& state);

  void set_progress(const TrainingProgress& progress) { scorer_.set_progress(progress); }
  // Truncates completions.jsonl before `step`, which a resumed run repeats.
  void forget_completions(int64_t step);
  // Gathers all completions of a draw from all processes.
  std::vector<RolloutSample> all_gather_samples(const std::vector<RolloutSample>& own, const Prompts& prompts);
  std::vector<double> totals(const RewardTable& rewards) const { return total_rewards(rewards, config_.advantage.weights); }
  ParallelStrategy& group() { return deps_.strategy; }

 private:
  RolloutBatch lay_out(const SharedPrompts& prompts, int64_t generations, uint64_t number, const ParallelStrategy& group,
                       std::vector<uint64_t>& seeds) const;
  RolloutBatch begin(const SharedPrompts& prompts, int64_t generations, uint64_t number, int64_t version);
  void settle(bool may_stop);
  std::vector<std::pair<std::string, double>> turn_metrics(bool trains) const;
  RolloutBatch scored(RolloutBatch draw);
  std::vector<std::pair<std::string, double>> version_notes(const std::vector<RolloutSample>& own, int64_t step) const;
  std::vector<data::Batch> collated(const RolloutBatch& draw, int64_t batch_size) const;
  bool can_record_passes() const;
  struct ObservedPass {
    Tensor logps_t, values_t;
  };
  ObservedPass observe_pass(const data::Batch& pass, PpoPayload* recorded);
  TensorList reference_logps(const std::vector<data::Batch>& passes);
  std::vector<Trajectory> trajectories_of(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                          const std::vector<PpoPayload>& payloads);
  std::vector<Trajectory> observe(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                  std::optional<size_t> first_trained, std::vector<PpoPayload>& payloads);
  std::vector<double> judged_scores(const RolloutBatch& draw, ExperienceState& state) const;
  void watch_scores(const std::vector<double>& scores);
  std::vector<std::pair<std::string, double>> ppo_notes(const RolloutBatch& draw, const std::vector<Trajectory>& trajectories,
                                                        const std::vector<double>& scores, double kl, double kl_coef) const;
  void write_experience(const std::vector<Trajectory>& trajectories, const RolloutBatch& draw,
                        const std::vector<data::Batch>& batches, std::vector<PpoPayload>& payloads) const;
  std::vector<double> divergences(const RolloutBatch& draw, const std::vector<data::Batch>& batches,
                                  const std::vector<PolicyPayload>& payloads) const;
  std::vector<PolicyPayload> compute_old_logps(const std::vector<data::Batch>& batches, bool remembers);
  bool asks_teacher(const RolloutBatch& draw) const;
  void compare_with_teacher(const std::vector<data::Batch>& batches, const RolloutBatch& draw, std::optional<int64_t> step,
                            std::vector<PolicyPayload>& payloads, std::vector<std::pair<std::string, double>>& notes);
  std::vector<std::pair<std::string, double>> length_notes(const std::vector<RolloutSample>& own, double& tokens) const;
  void log_completions(const RolloutBatch& draw, const std::vector<double>& advantages, int64_t step);
  void watch_differences(double even_groups);
  void count_zero_signal(bool is_zero, std::string_view meaning);  // warns after several rollouts in a row that teach nothing
  bool divergence_in_reward() const { return config_.kl_in_reward && config_.beta > 0; }

  ReinforcementConfig config_;
  RolloutDeps deps_;
  std::unique_ptr<TurnLoop> turns_;  // null: single-turn
  std::unique_ptr<RolloutEngine> engine_;
  std::unique_ptr<TurnsAhead> turns_ahead_;  // null: none are generated ahead
  CompletionsLog log_;
  RewardScorer scorer_;
  std::optional<RolloutBatch> ahead_;                    // requested ahead
  bool ahead_settled_ = false;                           // its completions are complete
  int64_t zero_signal_rollouts_ = 0;                     // consecutive ones
  int64_t updates_ = 0;                                  // before the last rollout that trains
  double generating_seconds_ = 0, scoring_seconds_ = 0;  // of the last rollout
};

// One process's rows of a table.
template <class Rows>
Rows own_part(const Rows& all, const ParallelStrategy& group) {
  auto size = all.size() / static_cast<size_t>(group.size());
  auto begin = all.begin() + static_cast<ptrdiff_t>(size * static_cast<size_t>(group.rank()));
  return Rows(begin, begin + static_cast<ptrdiff_t>(size));
}

}  // namespace hone::train::rl
