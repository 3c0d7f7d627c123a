#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rewards/words.h"

namespace hone::train::rl {
namespace {

// Calls what_follows(rest) for the text after each end of a leading think block, white space skipped; true if one call returns
// true.
template <class WhatFollows>
bool thought_then(std::string_view text, WhatFollows what_follows) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  if (!text.starts_with(kOpen)) return false;
  for (size_t end = text.find(kClose, kOpen.size()); end != text.npos; end = text.find(kClose, end + 1))
    if (what_follows(skip_white_space(text.substr(end + kClose.size())))) return true;
  return false;
}

class FormReward : public Reward {
 public:
  std::vector<double> score(const std::vector<RewardInput>& answers) override {
    std::vector<double> scores;
    for (const auto& answer : answers) scores.push_back(fits(answer.text) ? 1 : 0);
    return scores;
  }

 private:
  virtual bool fits(std::string_view text) const = 0;
};

// A think block, an answer, nothing after it.
class FormatReward final : public FormReward {
 public:
  std::string name() const override { return "Format"; }

 private:
  bool fits(std::string_view text) const override {
    return thought_then(text, [](std::string_view rest) {
      constexpr std::string_view kOpen = "<answer>", kClose = "</answer>";
      return rest.size() >= kOpen.size() + kClose.size() && rest.starts_with(kOpen) && rest.ends_with(kClose);
    });
  }
};

// A think block, an action, its input.
class ReactFormatReward final : public FormReward {
 public:
  std::string name() const override { return "ReActFormat"; }

 private:
  bool fits(std::string_view text) const override {
    return thought_then(text, [](std::string_view rest) {
      constexpr std::string_view kAction = "Action:";
      return rest.starts_with(kAction) && rest.find("Action Input:", kAction.size()) != rest.npos;
    });
  }
};

}  // namespace

std::unique_ptr<Reward> make_format_reward() { return std::make_unique<FormatReward>(); }
std::unique_ptr<Reward> make_react_format_reward() { return std::make_unique<ReactFormatReward>(); }

}  // namespace hone::train::rl
