// Scores the completions of a rollout with all rewards of a run, on every rank its own completions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/parallel/collectives/process_group.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/rl/advantages.h"
#include "hone/train/rl/config.h"
#include "hone/train/rl/rollout_sample.h"

namespace hone::train::rl {

class RewardScorer {
 public:
  struct ScorerDeps {
    ParallelStrategy& strategy;     // of data parallel ranks
    ParallelStrategy& processes;    // all of them
    parallel::ProcessGroup* peers;  // that train on the same rows; null: none do
    std::shared_ptr<const text::Tokenizer> tokenizer;
  };
  RewardScorer(const ReinforcementConfig& config, ScorerDeps deps);

  const std::vector<std::string>& names() const { return names_; }  // of the rewards, as metrics and completions.jsonl call them
  void set_progress(const TrainingProgress& progress);              // for rewards that depend on it
  // The rewards of all ranks' completions, in order. A reward that fails on one rank ends the run on all.
  RewardTable score(const std::vector<RolloutSample>& own);

 private:
  void name_request(std::vector<RewardInput>& inputs, bool again);  // again: of the same prompt as the one before
  std::vector<double> own_scores(const std::vector<RolloutSample>& own);
  std::vector<double> peer_scores(const std::vector<RolloutSample>& own);
  std::vector<double> all_peers(const std::vector<double>& part) const;

  ScorerDeps deps_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::string> names_;
  int64_t step_ = 0, requests_ = 0;  // of set_progress; completions that were scored since
};

}  // namespace hone::train::rl
