#include "hone/train/rl/rewards/math_answer.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

// The content of the first pair of answer tags.
std::optional<std::string> tagged_answer(const std::string& text) {
  constexpr std::string_view kOpen = "<answer>", kClose = "</answer>";
  size_t open = text.find(kOpen);
  size_t close = open == text.npos ? text.npos : text.find(kClose, open + kOpen.size());
  if (close == text.npos) return std::nullopt;
  return text.substr(open + kOpen.size(), close - open - kOpen.size());
}

// 1 if the completion is mathematically equal to the column `solution`. A solution that cannot be parsed gives 0, as in ms-swift.
class AccuracyReward final : public Reward {
 public:
  std::string name() const override { return "MathAccuracy"; }

  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    std::vector<double> scores;
    for (const auto& answer : answers) {
      auto solution = column_text(answer, "solution", "accuracy");
      auto gold = find_answer(tagged_answer(solution).value_or(solution));
      auto tagged = tagged_answer(answer.text);
      auto found = !gold ? std::nullopt : tagged ? find_answer(*tagged) : find_marked_answer(answer.text);
      scores.push_back(gold && found && same_answer(*gold, *found) ? 1 : 0);
    }
    return scores;
  }
};

}  // namespace

std::unique_ptr<Reward> make_accuracy_reward() { return std::make_unique<AccuracyReward>(); }

}  // namespace hone::train::rl
