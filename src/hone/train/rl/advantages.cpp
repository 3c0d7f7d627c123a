#include "hone/train/rl/advantages.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace hone::train::rl {
namespace {

constexpr double kAgainstZero = 1e-4, kAgainstZeroOfEach = 1e-8, kRewardRounding = 1e-8;

// Over the values that are numbers.
struct Moments {
  double mean = 0, deviation = 0;  // unbiased standard deviation; 0 for fewer than two
  int64_t count = 0;
};

Moments moments_of(std::span<const double> values) {
  Moments moments;
  for (double value : values)
    if (!std::isnan(value)) moments.mean += value, ++moments.count;
  if (moments.count > 0) moments.mean /= static_cast<double>(moments.count);
  double squares = 0;
  for (double value : values)
    if (!std::isnan(value)) squares += (value - moments.mean) * (value - moments.mean);
  if (moments.count > 1) moments.deviation = std::sqrt(squares / static_cast<double>(moments.count - 1));
  return moments;
}

// Compares values instead of the deviation, which rounding can keep above zero.
bool is_even(std::span<const double> group) {
  auto [least, most] = std::ranges::minmax(group);
  return most - least <= kRewardRounding;
}

template <class Visit>
void each_group(const std::vector<double>& values, int64_t generations, Visit visit) {
  auto size = static_cast<size_t>(generations);
  for (size_t begin = 0; begin < values.size(); begin += size) visit(begin, std::span(values).subspan(begin, size));
}

std::vector<double> column_of(const RewardTable& rewards, size_t column) {
  std::vector<double> values;
  for (const auto& row : rewards) values.push_back(row[column]);
  return values;
}

// Normalizes each reward separately, then sums.
std::vector<double> decoupled(const RewardTable& rewards, int64_t generations, const std::vector<double>& weights) {
  std::vector<double> sums(rewards.size());
  for (size_t column = 0; column < weights.size(); ++column)
    each_group(column_of(rewards, column), generations, [&](size_t begin, std::span<const double> group) {
      auto moments = moments_of(group);
      for (size_t i = 0; i < group.size(); ++i) {
        double standing = (group[i] - moments.mean) / (moments.deviation + kAgainstZeroOfEach);
        if (!std::isnan(standing)) sums[begin + i] += weights[column] * standing;
      }
    });
  auto all = moments_of(sums);
  for (double& sum : sums) sum = (sum - all.mean) / (all.deviation + kAgainstZeroOfEach);
  return sums;
}

}  // namespace

std::vector<double> total_rewards(const RewardTable& rewards, const std::vector<double>& weights) {
  std::vector<double> totals;
  for (const auto& row : rewards) {
    double total = 0;
    for (size_t i = 0; i < row.size(); ++i)
      if (!std::isnan(row[i])) total += weights[i] * row[i];
    totals.push_back(total);
  }
  return totals;
}

std::vector<double> group_deviations(const std::vector<double>& totals, int64_t generations) {
  std::vector<double> deviations(totals.size());
  each_group(totals, generations, [&](size_t begin, std::span<const double> group) {
    std::fill_n(deviations.begin() + static_cast<ptrdiff_t>(begin), group.size(), moments_of(group).deviation);
  });
  return deviations;
}

std::vector<bool> zero_variance_groups(const std::vector<double>& totals, int64_t generations) {
  std::vector<bool> even(totals.size());
  each_group(totals, generations, [&](size_t begin, std::span<const double> group) {
    std::fill_n(even.begin() + static_cast<ptrdiff_t>(begin), group.size(), is_even(group));
  });
  return even;
}

std::vector<double> advantages_of(const std::vector<double>& totals, const RewardTable& rewards, int64_t generations,
                                  const AdvantageConfig& config) {
  if (config.scale == RewardScale::gdpo && config.estimator != Estimator::reinforce_plus_plus)
    return decoupled(rewards, generations, config.weights);
  auto advantages = totals;
  const auto group_size = static_cast<double>(generations);
  const double stretch = config.estimator == Estimator::rloo && generations > 1 ? group_size / (group_size - 1) : 1;
  each_group(totals, generations, [&](size_t begin, std::span<const double> group) {
    double mean = moments_of(group).mean;
    for (size_t i = 0; i < group.size(); ++i) advantages[begin + i] = (group[i] - mean) * stretch;
  });
  const auto& measured = config.estimator == Estimator::reinforce_plus_plus ? advantages : totals;
  if (config.scale == RewardScale::batch) {
    double deviation = moments_of(measured).deviation;
    for (double& advantage : advantages) advantage /= deviation + kAgainstZero;
  } else if (config.scale == RewardScale::group) {
    auto deviations = group_deviations(measured, generations);
    for (size_t i = 0; i < advantages.size(); ++i) advantages[i] /= deviations[i] + kAgainstZero;
  }
  return advantages;
}

std::vector<std::pair<std::string, double>> reward_metrics(const std::vector<double>& totals, const RewardTable& rewards,
                                                           const std::vector<std::string>& names, int64_t generations,
                                                           RewardScale scale) {
  double groups = static_cast<double>(totals.size()) / static_cast<double>(generations), deviation = 0, even = 0;
  each_group(totals, generations, [&](size_t, std::span<const double> group) {
    deviation += moments_of(group).deviation / groups;
    even += (is_even(group) ? 1 : 0) / groups;
  });
  if (scale == RewardScale::batch) deviation = moments_of(totals).deviation;
  std::vector<std::pair<std::string, double>> metrics{
      {"reward", moments_of(totals).mean}, {"reward_std", deviation}, {"frac_reward_zero_std", even}};
  for (size_t i = 0; i < names.size(); ++i) {
    auto moments = moments_of(column_of(rewards, i));
    if (moments.count == 0) continue;
    metrics.emplace_back("rewards/" + names[i] + "/mean", moments.mean);
    metrics.emplace_back("rewards/" + names[i] + "/std", moments.deviation);
  }
  return metrics;
}

}  // namespace hone::train::rl
