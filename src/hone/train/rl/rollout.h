// One rollout: prompts to answers, answers to rewards, rewards to advantages, all of it to batches.
#pragma once
#include <memory>

#include "hone/base/file.h"
#include "hone/data/batch.h"
#include "hone/train/reference.h"
#include "hone/train/rl/completions_log.h"
#include "hone/train/rl/config.h"
#include "hone/train/rl/prompts.h"
#include "hone/train/rl/writer.h"

namespace hone::train::rl {

// An answer with what it answers.
struct RolledAnswer {
  std::shared_ptr<const Prompt> prompt;
  WrittenAnswer answer;
};

// What this process has of a rollout, and the rewards of all of it.
struct Draw {
  std::vector<RolledAnswer> own;
  RewardTable rewards;  // of all processes' answers, in order
};

// How a rollout is cut up.
struct RolloutShape {
  int64_t generations = 8, micro_batch = 1, steps = 1;
  double updates_share = 1;  // the part of the rollout's tokens that one batch counts for, over all processes
};

class RolloutMaker {
 public:
  struct Parts {
    model::CausalLM& model;
    Reference* reference;  // null: none
    Group& group;
    bool sharded;  // weights come and go
    std::shared_ptr<const data::Encoder> encoder;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    int64_t longest_prompt;
    fs::path folder;  // of the run
    uint64_t seed;
  };
  RolloutMaker(const ReinforcementConfig& config, Parts parts);

  // Every process is given the same prompts, and answers its part of them. `number` makes the draws differ.
  Draw draw(const std::vector<std::shared_ptr<const Prompt>>& prompts, int64_t generations, uint64_t number);
  // `remembers`: what the model thinks of the answers now is kept with them. `step` is what completions.jsonl calls it, if it is written.
  std::vector<data::Batch> batches_of(const Draw& draw, const RolloutShape& shape, bool remembers, std::optional<int64_t> step);

  // completions.jsonl ends before `step`, which a resumed run comes to again.
  void forget_completions(int64_t step);
  // Of a draw that all processes had a part in, all answers.
  std::vector<RolledAnswer> everyones(const std::vector<RolledAnswer>& own, const Prompts& prompts);
  std::vector<double> totals(const RewardTable& rewards) const { return total_rewards(rewards, config_.advantage.weights); }
  Group& group() { return parts_.group; }

 private:
  std::vector<double> own_scores(const std::vector<RolledAnswer>& own);
  RewardTable judge(const std::vector<RolledAnswer>& own);
  std::vector<double> divergences(const std::vector<data::Batch>& batches) const;
  void recall_logps(std::vector<data::Batch>& batches, bool remembers);
  std::vector<std::pair<std::string, double>> length_notes(const std::vector<RolledAnswer>& own, double& tokens) const;
  void log_completions(const Draw& draw, const std::vector<double>& advantages, int64_t step);
  void watch_differences(double even_groups);
  bool divergence_in_reward() const { return config_.divergence_in_reward && config_.reference_weight > 0; }

  ReinforcementConfig config_;
  Parts parts_;
  AnswerWriter writer_;
  CompletionsLog log_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::string> names_;
  int64_t rollouts_in_vain_ = 0;  // in a row
};

// Of a whole table the rows of one process.
template <class Rows>
Rows own_part(const Rows& all, const Group& group) {
  auto size = all.size() / static_cast<size_t>(group.size());
  auto begin = all.begin() + static_cast<ptrdiff_t>(size * static_cast<size_t>(group.rank()));
  return Rows(begin, begin + static_cast<ptrdiff_t>(size));
}

}  // namespace hone::train::rl
