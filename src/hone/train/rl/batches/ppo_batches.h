// PPO's batches: completions with the experience of every state, from the policy, the reference and the critic.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/train/losses/ppo.h"
#include "hone/train/rl/batches/rollout_report.h"
#include "hone/train/rl/batches/scoring_models.h"

namespace hone::train::rl {

class PpoBatches {
 public:
  // `worker` and `report` must outlive this.
  PpoBatches(const RolloutWorker& worker, RolloutReport& report, const ScoringModels& models)
      : worker_(worker), report_(report), models_(models), config_(worker.config()), deps_(worker.deps()) {}

  // Batches of a rollout of `worker`. `step` is that of completions.jsonl; unset: an evaluation. `first_trained`: the batch of
  // the next update, if one follows. Updates `state`.
  std::vector<data::Batch> make(const RolloutBatch& draw, const RolloutShape& shape, std::optional<int64_t> step,
                                std::optional<size_t> first_trained, ExperienceState& state);

 private:
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
  std::vector<double> reward_scores(const RolloutBatch& draw, ExperienceState& state) const;
  void watch_scores(const std::vector<double>& scores);
  std::vector<std::pair<std::string, double>> ppo_notes(const RolloutBatch& draw, const std::vector<Trajectory>& trajectories,
                                                        const std::vector<double>& scores, double kl, double kl_coef) const;
  void write_experience(const std::vector<Trajectory>& trajectories, const RolloutBatch& draw,
                        const std::vector<data::Batch>& batches, std::vector<PpoPayload>& payloads) const;

  const RolloutWorker& worker_;
  RolloutReport& report_;
  ScoringModels models_;
  const ReinforcementConfig& config_;
  const RolloutWorker::RolloutDeps& deps_;
};

}  // namespace hone::train::rl
