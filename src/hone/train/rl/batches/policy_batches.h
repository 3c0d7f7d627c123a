// GRPO's batches: completions with the advantages of their rewards, and the log-probabilities that the policy loss compares with.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/train/losses/policy.h"
#include "hone/train/rl/batches/rollout_report.h"
#include "hone/train/rl/batches/scoring_models.h"

namespace hone::train::rl {

class PolicyBatches {
 public:
  // `worker` and `report` must outlive this.
  PolicyBatches(const RolloutWorker& worker, RolloutReport& report, const ScoringModels& models)
      : worker_(worker), report_(report), models_(models), config_(worker.config()), deps_(worker.deps()) {}

  // Batches of a rollout of `worker`. `remembers`: stores the present log-probabilities of the completions as the old ones.
  // `step` is that of completions.jsonl; unset: an evaluation.
  std::vector<data::Batch> make(const RolloutBatch& draw, const RolloutShape& shape, bool remembers, std::optional<int64_t> step);

 private:
  std::vector<PolicyPayload> compute_old_logps(const std::vector<data::Batch>& batches, bool remembers);
  std::vector<double> divergences(const RolloutBatch& draw, const std::vector<data::Batch>& batches,
                                  const std::vector<PolicyPayload>& payloads) const;
  std::vector<std::pair<std::string, double>> version_notes(const std::vector<RolloutSample>& own, int64_t step) const;
  bool asks_teacher(const RolloutBatch& draw) const;
  void compare_with_teacher(const std::vector<data::Batch>& batches, const RolloutBatch& draw, std::optional<int64_t> step,
                            std::vector<PolicyPayload>& payloads, std::vector<std::pair<std::string, double>>& notes);
  void watch_differences(double even_groups);
  bool divergence_in_reward() const { return config_.kl_in_reward && config_.beta > 0; }

  const RolloutWorker& worker_;
  RolloutReport& report_;
  ScoringModels models_;
  const ReinforcementConfig& config_;
  const RolloutWorker::RolloutDeps& deps_;
  int64_t updates_ = 0;  // before the last rollout that trains
};

}  // namespace hone::train::rl
