// Rewards computed from the completion and its row alone: accuracy, format, length, repetition, an environment's total.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "hone/train/rl/rewards/math_answer.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rewards/words.h"

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
  std::vector<std::string> required_columns() const override { return {"solution"}; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) {
      auto solution = column_text(completion, "solution", "accuracy");
      auto gold = find_answer(tagged_answer(solution).value_or(solution));
      auto tagged = tagged_answer(completion.text);
      auto found = !gold ? std::nullopt : tagged ? find_answer(*tagged) : find_marked_answer(completion.text);
      scores.push_back(gold && found && same_answer(*gold, *found) ? 1 : 0);
    }
    return scores;
  }
};

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
  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) scores.push_back(fits(completion.text) ? 1 : 0);
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

// Correct completions earn less the longer they are, wrong ones more, along half a cosine.
class CosineReward final : public Reward {
 public:
  explicit CosineReward(const RewardConfig& config) : config_(config), accuracy_(make_accuracy_reward()) {}
  std::string name() const override { return "CosineReward"; }
  std::vector<std::string> required_columns() const override { return {"solution"}; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    auto scores = accuracy_->score(completions);
    for (size_t i = 0; i < completions.size(); ++i) {
      bool right = scores[i] >= 1;
      double shortest = right ? config_.cosine_shortest_right : config_.cosine_shortest_wrong;
      double longest = right ? config_.cosine_longest_right : config_.cosine_longest_wrong;
      double way = static_cast<double>(completions[i].tokens) /
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

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) {
      auto beyond = static_cast<double>(completion.tokens - (longest_ - margin_));
      scores.push_back(std::min(-beyond / static_cast<double>(margin_), 0.0));
    }
    return scores;
  }

 private:
  int64_t longest_, margin_;
};

// A penalty for the share of repeated n-grams.
class RepetitionReward final : public Reward {
 public:
  RepetitionReward(int64_t words, double penalty) : words_(static_cast<size_t>(words)), penalty_(penalty) {}
  std::string name() const override { return "RepetitionPenalty"; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) scores.push_back(repeated_part(lower_words(completion.text)) * penalty_);
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

class GymReward final : public Reward {
 public:
  std::string name() const override { return "gym_reward"; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) {
      const auto total = completion.infos ? completion.infos->value("total_reward", Json()) : Json();
      scores.push_back(total.is_number() ? total.get<double>() : std::nan(""));
    }
    return scores;
  }
};

}  // namespace

std::unique_ptr<Reward> make_accuracy_reward() { return std::make_unique<AccuracyReward>(); }

std::unique_ptr<Reward> make_format_reward() { return std::make_unique<FormatReward>(); }
std::unique_ptr<Reward> make_react_format_reward() { return std::make_unique<ReactFormatReward>(); }

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

std::unique_ptr<Reward> make_repetition_reward(const RewardConfig& config) {
  return std::make_unique<RepetitionReward>(config.repetition_words, config.repetition_penalty);
}

std::unique_ptr<Reward> make_gym_reward() { return std::make_unique<GymReward>(); }

}  // namespace hone::train::rl
