#include <set>

#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rewards/words.h"

namespace hone::train::rl {
namespace {

// A penalty for the share of repeated n-grams.
class RepetitionReward final : public Reward {
 public:
  RepetitionReward(int64_t words, double penalty) : words_(static_cast<size_t>(words)), penalty_(penalty) {}
  std::string name() const override { return "RepetitionPenalty"; }

  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    std::vector<double> scores;
    for (const auto& answer : answers) scores.push_back(repeated_part(lower_words(answer.text)) * penalty_);
    return scores;
  }

 private:
  double repeated_part(const std::vector<std::string>& words) const {
    if (words.size() < words_) return 0;
    std::set<std::vector<std::string>> different;
    size_t total = words.size() - words_ + 1;
    for (auto begin = words.begin(); begin != words.begin() + static_cast<ptrdiff_t>(total); ++begin)
      different.emplace(begin, begin + static_cast<ptrdiff_t>(words_));
    return 1 - static_cast<double>(different.size()) / static_cast<double>(total);
  }

  size_t words_;
  double penalty_;
};

}  // namespace

std::unique_ptr<Reward> make_repetition_reward(const RewardConfig& config) {
  return std::make_unique<RepetitionReward>(config.repetition_words, config.repetition_penalty);
}

}  // namespace hone::train::rl
