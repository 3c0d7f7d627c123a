// Multi-turn rollouts: all episodes generate one turn in a batch, then their schedulers return the next turns, until the last
// episode ends.
#pragma once
#include "hone/train/rl/turns/episode.h"

namespace hone::train::rl {

// Tokens of a context.
struct ContextLimits {
  int64_t max_model_len = 0;  // of the engine
  int64_t max_text_len = 0;   // without the images that turns bring
};

class TurnLoop {
 public:
  struct LoopDeps {
    std::shared_ptr<const data::Encoder> encoder;
    ParallelStrategy& group;
    int64_t max_completion_length;
    ContextLimits context;
    parallel::ProcessGroup* peers = nullptr;  // that run the same episodes; null: none do
  };
  TurnLoop(const TurnConfig& config, LoopDeps deps);

  // Every process calls it with its own samples, which have only a prompt, and a seed for each.
  void run(std::vector<RolloutSample>& samples, const std::vector<uint64_t>& seeds, RolloutEngine& engine, int64_t version);
  // Metrics of the last rollout; the same on all processes.
  const std::vector<std::pair<std::string, double>>& metrics() const { return metrics_; }
  std::vector<std::string> stop_words() const { return scheduler_->stop_words(); }
  // The context that an engine needs beyond the longest prompt. Unset: for one completion.
  static int64_t longest_episode(const std::optional<TurnConfig>& config, int64_t max_completion_length);
  // For prompts of up to `longest_prompt` tokens. The images of turns, of unknown size, may take all of `model_context`.
  static ContextLimits context_limits(const std::optional<TurnConfig>& config, const data::Encoder& encoder,
                                      int64_t longest_prompt, int64_t max_completion_length, int64_t model_context);

 private:
  void start(std::vector<RolloutSample>& samples, const std::vector<uint64_t>& seeds);
  std::vector<size_t> take_turn(std::vector<Episode>& episodes, const std::vector<size_t>& active, int64_t turn);
  template <class Work>
  void together(Work work);
  void note(const std::vector<Episode>& episodes);

  TurnConfig config_;
  LoopDeps deps_;
  std::unique_ptr<TurnScheduler> scheduler_;
  std::vector<std::pair<std::string, double>> metrics_;
};

// Sampling parameters with the stop strings of a scheduler. `turns` null: unchanged.
engine::SamplingParams with_stop_words(engine::SamplingParams sampling, const TurnLoop* turns);

}  // namespace hone::train::rl
