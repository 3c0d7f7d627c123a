#include "hone/eval/sampling/best_answers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace hone::eval {
namespace {

// Min-max normalization to [0, 1]; equal values stay, at most 1.
std::vector<double> spread_out(std::vector<double> scores) {
  auto [least, greatest] = std::ranges::minmax(scores);
  for (double& score : scores)
    score = least == greatest ? (least == 0 ? 0.0 : std::min(1.0, least)) : (score - least) / (greatest - least + 1e-5);
  return scores;
}

std::vector<bool> above(const std::vector<double>& scores, double threshold) {
  std::vector<bool> mask;
  for (double score : scores) mask.push_back(score > threshold);
  return mask;
}

// A missing score counts as the lowest.
std::vector<double> without_nan(std::vector<double> scores) {
  double least = 0;
  for (double score : scores)
    if (!std::isnan(score)) least = std::min(least, score);
  for (double& score : scores)
    if (std::isnan(score)) score = least;
  return scores;
}

}  // namespace

std::optional<Selection> select_answers(const std::vector<double>& outcome, const std::vector<double>& process, size_t answers,
                                        bool has_reference, const SelectionConfig& config) {
  size_t count = answers + (has_reference ? 1 : 0);
  if (count == 0) return std::nullopt;
  auto raw_outcome = outcome.empty() ? std::vector<double>(count, 1.0) : without_nan(outcome),
       raw_process = process.empty() ? std::vector<double>(count, 1.0) : without_nan(process);
  auto right = outcome.empty() ? std::vector<bool>(count, true) : above(raw_outcome, 0),
       sound = process.empty() ? std::vector<bool>(count, true) : above(raw_process, config.prm_threshold);
  auto orm = outcome.empty() ? raw_outcome : spread_out(raw_outcome),
       prm = process.empty() ? raw_process : spread_out(raw_process);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  auto score = [&](size_t i) { return prm[i] + 10 * orm[i]; };
  std::ranges::stable_sort(order, {}, score);
  std::ranges::reverse(order);
  Selection chosen{.best = {}, .worst = order.back()};
  for (size_t i = 0; i < std::min(count, static_cast<size_t>(config.n_best_to_keep)); ++i) {
    const bool is_rejected = count > 1 && order[i] == chosen.worst;
    if (right[order[i]] && sound[order[i]] && !is_rejected) chosen.best.push_back(order[i]);
  }
  auto good = std::ranges::count_if(orm, [](double one) { return one > 0; }) - (has_reference ? 1 : 0);
  bool easy = config.easy_query_threshold &&
              good >= static_cast<int64_t>(static_cast<double>(config.num_return_sequences) * *config.easy_query_threshold);
  if (chosen.best.empty() || easy) return std::nullopt;
  return chosen;
}

}  // namespace hone::eval
