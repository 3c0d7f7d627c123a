// Reports each rollout, regardless of the method: lengths, completions.jsonl, and a warning if all rewards are equal.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/train/rl/completions_log.h"
#include "hone/train/rl/rollout.h"

namespace hone::train::rl {

class RolloutReport {
 public:
  // `worker` must outlive the report.
  explicit RolloutReport(const RolloutWorker& worker)
      : worker_(worker), config_(worker.config()), group_(worker.group()), log_(worker.deps().folder) {}

  // Over all processes. `tokens`: the number of tokens that train.
  std::vector<std::pair<std::string, double>> length_metrics(const std::vector<RolloutSample>& own, double& tokens) const;
  // A line of completions.jsonl, with one advantage for each completion of all processes.
  void log_completions(const RolloutBatch& draw, const std::vector<double>& advantages, int64_t step);
  // Truncates completions.jsonl before `step`, which a resumed run repeats.
  void forget_completions(int64_t step);
  // Warns after several rollouts in a row that teach nothing.
  void count_zero_signal(bool is_zero, std::string_view meaning);

 private:
  const RolloutWorker& worker_;
  const ReinforcementConfig& config_;
  ParallelStrategy& group_;  // of data parallel ranks
  CompletionsLog log_;
  int64_t zero_signal_rollouts_ = 0;  // consecutive ones
};

}  // namespace hone::train::rl
