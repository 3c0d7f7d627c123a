#include "hone/train/rl/rewards/model_reward.h"

#include <cmath>

namespace hone::train::rl {
namespace {

class ModelReward final : public Reward {
 public:
  explicit ModelReward(const RewardModelConfig& config) : name_(config.folder.filename().string()), model_(config) {}
  std::string name() const override { return name_; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<data::Conversation> conversations;
    for (const auto& completion : completions) {
      conversations.push_back(*completion.question);
      conversations.back().messages = completion.messages();
      conversations.back().messages.push_back(
          {.role = "assistant", .content = completion.text, .loss = {}, .loss_scale = {}, .extra = {}});
    }
    auto scores = model_.score(std::move(conversations));
    for (size_t i = 0; i < scores.size(); ++i) require_number(scores[i], *completions[i].question);
    return scores;
  }

 private:
  // NaN would count as a missing reward, and a broken model would go unnoticed.
  void require_number(double score, const data::Conversation& question) const {
    if (std::isfinite(score)) return;
    throw UserError(ExitCode::failure,
                    fmt::format("the reward model {} returned {} for a completion of {}", name_, score, question.origin.str()),
                    "its weights may be broken, or too large for their type: try `torch_dtype` float32");
  }

  std::string name_;
  RewardModel model_;
};

}  // namespace

std::unique_ptr<Reward> make_model_reward(const RewardModelConfig& config) {
  if (config.generates) return make_generative_reward(config);
  return std::make_unique<ModelReward>(config);
}

}  // namespace hone::train::rl
