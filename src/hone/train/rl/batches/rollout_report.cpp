#include "hone/train/rl/batches/rollout_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "hone/base/log.h"
#include "hone/train/rl/gather.h"

namespace hone::train::rl {

std::vector<std::pair<std::string, double>> RolloutReport::length_metrics(const std::vector<RolloutSample>& own,
                                                                          double& tokens) const {
  // Processes have the same number of episodes, but not of rounds.
  std::vector<double> lengths, rounds, shortest, longest, truncated, empty;
  for (const auto& rolled : own) {
    std::vector<double> each;
    for (const auto* round : training_rounds({&rolled, 1}))
      each.push_back(static_cast<double>(trained_tokens(round->completion)));
    lengths.push_back(std::accumulate(each.begin(), each.end(), 0.0));
    rounds.push_back(static_cast<double>(each.size()));
    shortest.push_back(std::ranges::min(each));
    longest.push_back(std::ranges::max(each));
    truncated.push_back(rolled.completion.truncated ? 1 : 0);
    empty.push_back(rolled.completion.text.empty() ? 1 : 0);
  }
  const auto sum = [&](const std::vector<double>& values) {
    return group_.sum(std::accumulate(values.begin(), values.end(), 0.0));
  };
  const double completions = group_.sum(static_cast<double>(own.size()));
  tokens = sum(lengths);
  return {{"completions/mean_length", tokens / sum(rounds)},
          {"completions/min_length", std::ranges::min(gather(shortest, group_))},
          {"completions/max_length", std::ranges::max(gather(longest, group_))},
          {"completions/clipped_ratio", sum(truncated) / completions},
          {"completions/empty_ratio", sum(empty) / completions}};
}

void RolloutReport::count_zero_signal(bool is_zero, std::string_view meaning) {
  constexpr int64_t kPatience = 3;
  zero_signal_rollouts_ = is_zero ? zero_signal_rollouts_ + 1 : 0;
  if (zero_signal_rollouts_ == kPatience && group_.is_main())
    log::warning("in {} rollouts in a row {}; see rewards/… in the log ({})", kPatience, meaning,
                 fmt::join(worker_.reward_names(), ", "));
}

void RolloutReport::log_completions(const RolloutBatch& draw, const std::vector<double>& advantages, int64_t step) {
  std::vector<std::string> prompts, completions, solutions;
  for (const auto& rolled : draw.own) {
    prompts.push_back(before_last_turn(rolled, *worker_.deps().tokenizer));
    completions.push_back(rolled.completion.text);
    const auto& columns = rolled.prompt->question.extra;
    if (columns.is_object() && columns.contains("solution"))
      solutions.push_back(columns["solution"].is_string() ? columns["solution"].get<std::string>() : columns["solution"].dump());
  }
  Json table{{"step", std::vector<std::string>(advantages.size(), std::to_string(step))},
             {"prompt", gather(prompts, group_)},
             {"completion", gather(completions, group_)}};
  for (size_t r = 0; r < worker_.reward_names().size(); ++r) {
    auto& column = table[worker_.reward_names()[r]] = Json::array();
    for (const auto& row : draw.rewards) column.push_back(row[r]);
  }
  table["advantages"] = advantages;
  if (config_.turns) {
    std::vector<double> turns;
    for (const auto& rolled : draw.own) turns.push_back(static_cast<double>(rolled.turns.count));
    table["num_turns"] = gather(turns, group_);
  }
  if (config_.servers && config_.keep_logprobs) {
    std::vector<double> versions;
    for (const auto& rolled : draw.own)
      versions.push_back(rolled.completion.versions.empty() ? -1
                                                            : static_cast<double>(std::ranges::min(rolled.completion.versions)));
    table["weights_version"] = gather(versions, group_);
  }
  if (group_.sum(solutions.size() == draw.own.size() ? 0 : 1) == 0) table["solution"] = gather(solutions, group_);
  if (group_.is_main()) log_.append(table);
}

void RolloutReport::forget_completions(int64_t step) {
  if (config_.log_completions && group_.is_main()) log_.truncate_to(step);
}

}  // namespace hone::train::rl
