#include <cmath>

#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

class GymReward final : public Reward {
 public:
  std::string name() const override { return "gym_reward"; }

  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    std::vector<double> scores;
    for (const auto& answer : answers) {
      const auto total = answer.infos ? answer.infos->value("total_reward", Json()) : Json();
      scores.push_back(total.is_number() ? total.get<double>() : std::nan(""));
    }
    return scores;
  }
};

}  // namespace

std::unique_ptr<Reward> make_gym_reward() { return std::make_unique<GymReward>(); }

}  // namespace hone::train::rl
