#include "hone/train/rl/rewards/model_reward.h"

namespace hone::train::rl {
namespace {

class ModelReward final : public Reward {
 public:
  explicit ModelReward(const RewardModelConfig& config) : name_(config.folder.filename().string()), model_(config) {}
  std::string name() const override { return name_; }

  std::vector<double> score(const std::vector<JudgedAnswer>& answers) override {
    std::vector<data::Conversation> conversations;
    for (const auto& answer : answers) {
      conversations.push_back(*answer.question);
      conversations.back().messages.push_back({.role = "assistant", .content = answer.text, .loss = {}, .loss_scale = {}, .extra = {}});
    }
    return model_.score(conversations);
  }

 private:
  std::string name_;
  RewardModel model_;
};

}  // namespace

std::unique_ptr<Reward> make_model_reward(const RewardModelConfig& config) { return std::make_unique<ModelReward>(config); }

}  // namespace hone::train::rl
