#include "hone/train/losses/policy_tokens.h"

#include <cmath>
#include <mutex>

#include "hone/base/log.h"

namespace hone::train {

Tensor discounted_futures(const Tensor& values_n, const Tensor& completion_n, double discount) {
  constexpr double kNegligible = 1e-30;
  auto sums_n = values_n.clone();
  for (int64_t reach = 1, count = values_n.size(0); reach < count; reach *= 2) {
    const double weight = std::pow(discount, reach);
    if (weight < kNegligible) break;
    auto same_completion = completion_n.narrow(0, 0, count - reach) == completion_n.narrow(0, reach, count - reach);
    auto beyond = sums_n.narrow(0, reach, count - reach) * same_completion * weight;
    sums_n.narrow(0, 0, count - reach).add_(beyond);
  }
  return sums_n;
}

void compare_models(const std::function<double()>& difference) {
  constexpr double kMostExplained = 0.5;
  static std::once_flag compared;
  std::call_once(compared, [&] {
    const double found = difference();
    if (found > kMostExplained)
      log::warning(
          "the log-probabilities of the rollout differ from the trainer's by {:.2f} per token; expected less than 0.1: the "
          "completions are another model's. Rollout servers need the `model` of this run",
          found);
  });
}

}  // namespace hone::train
