// ms-swift's math_tip_trick: a wrong completion is cut at the end of its reasoning and continues with a hint, once.
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {
namespace {

constexpr std::string_view kDoubt = "But wait... It seems I made a mistake,";

class MathTips final : public TurnScheduler {
 public:
  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    std::vector<RewardInput> answers;
    for (const auto& turn : turns) answers.push_back({turn.question, turn.messages->back().content, 0, {}});
    const auto right = accuracy_->score(answers);
    std::vector<NextTurn> next(turns.size());
    for (size_t i = 0; i < turns.size(); ++i) {
      const auto& turn = turns[i];
      const bool doubted = answers[i].text.find(kDoubt) != std::string::npos;
      if (turn.truncated || turn.last || doubted || right[i] == 1) continue;
      next[i] = {.done = false,
                 .keep = std::min({turn.text.size(), turn.text.find("<answer>"), turn.text.find("</think>")}),
                 .continued = std::string(kDoubt)};
    }
    return next;
  }

 private:
  std::unique_ptr<Reward> accuracy_ = make_accuracy_reward();
};

}  // namespace

std::unique_ptr<TurnScheduler> make_math_tips() { return std::make_unique<MathTips>(); }

}  // namespace hone::train::rl
