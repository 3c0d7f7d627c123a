// Rewards based on the length of a completion.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

// Correct completions earn less the longer they are, wrong ones more, along half a cosine.
class CosineReward final : public Reward {
 public:
  explicit CosineReward(const RewardConfig& config) : config_(config), accuracy_(make_accuracy_reward()) {}
  std::string name() const override { return "CosineReward"; }

  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    auto scores = accuracy_->score(answers);
    for (size_t i = 0; i < answers.size(); ++i) {
      bool right = scores[i] >= 1;
      double shortest = right ? config_.cosine_shortest_right : config_.cosine_shortest_wrong;
      double longest = right ? config_.cosine_longest_right : config_.cosine_longest_wrong;
      double way = static_cast<double>(answers[i].tokens) /
                   static_cast<double>(config_.cosine_longest ? config_.cosine_longest : config_.max_completion_length);
      scores[i] = shortest - (shortest - longest) * (1 - std::cos(way * std::numbers::pi)) / 2;
    }
    return scores;
  }

 private:
  RewardConfig config_;
  std::unique_ptr<Reward> accuracy_;
};

// A penalty that grows over the last part of the allowed length.
class SoftOverlongReward final : public Reward {
 public:
  SoftOverlongReward(int64_t longest, int64_t margin) : longest_(longest), margin_(margin) {}
  std::string name() const override { return "SoftOverlong"; }

  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    std::vector<double> scores;
    for (const auto& answer : answers) {
      auto beyond = static_cast<double>(answer.tokens - (longest_ - margin_));
      scores.push_back(std::min(-beyond / static_cast<double>(margin_), 0.0));
    }
    return scores;
  }

 private:
  int64_t longest_, margin_;
};

}  // namespace

std::unique_ptr<Reward> make_cosine_reward(const RewardConfig& config) { return std::make_unique<CosineReward>(config); }

std::unique_ptr<Reward> make_soft_overlong_reward(const RewardConfig& config) {
  int64_t longest = config.soft_longest ? config.soft_longest : config.max_completion_length;
  if (config.soft_margin <= 0)
    throw UserError(ExitCode::usage, "the reward soft_overlong needs the number of tokens over which its penalty grows",
                    "set soft_cache_length");
  if (config.soft_margin >= longest)
    throw UserError(ExitCode::usage,
                    fmt::format("soft_cache_length {} is not below soft_max_length {}", config.soft_margin, longest), "lower it");
  return std::make_unique<SoftOverlongReward>(longest, config.soft_margin);
}

}  // namespace hone::train::rl
