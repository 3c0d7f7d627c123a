// Multi-turn rollouts during training: the first process runs the turns of all processes' episodes on a separate thread.
#pragma once
#include <atomic>
#include <future>

#include "hone/train/rl/turns/turn_loop.h"

namespace hone::train::rl {

class TurnsAhead {
 public:
  TurnsAhead(const TurnConfig& config, const TurnLoop::LoopDeps& deps);
  ~TurnsAhead();

  // Every process calls it with the samples of all processes, which have only a prompt, and a seed for each. `engine` must
  // outlive the turns.
  void begin(std::vector<RolloutSample> all, std::vector<uint64_t> seeds, RolloutEngine& engine, int64_t version);
  // Fills this process's own samples, which have only a prompt. Throws as RolloutEngine::finish does.
  void finish(std::vector<RolloutSample>& own, RolloutEngine& engine, bool may_stop);
  // Metrics of the last rollout; the same on all processes.
  const std::vector<std::pair<std::string, double>>& metrics() const { return metrics_; }
  void restore_metrics(const Json& metrics) { metrics_ = metrics.get<std::vector<std::pair<std::string, double>>>(); }

 private:
  ParallelStrategy& group_;
  std::shared_ptr<const data::Encoder> encoder_;
  SingleProcess alone_;
  std::unique_ptr<TurnLoop> loop_;  // of the first process
  std::unique_ptr<RolloutEngine> engine_;
  std::future<std::vector<RolloutSample>> pending_;
  std::atomic<bool> abandoned_{false}, may_stop_{false};
  std::vector<std::pair<std::string, double>> metrics_;
};

}  // namespace hone::train::rl
