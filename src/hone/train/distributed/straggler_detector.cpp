#include "hone/train/distributed/straggler_detector.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::train {
namespace {

constexpr int kWindow = 4;             // steps
constexpr int kSlowSteps = 3;          // windows
constexpr double kFactor = 2.0;        // of the median
constexpr double kNoticeable = 0.025;  // seconds per step: less is noise

}  // namespace

std::optional<std::string> StragglerDetector::observe(const std::vector<double>& seconds) {
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += seconds[i];
  if (++steps_ < kWindow) return {};
  auto ordered = sums_;
  // With two processes, the faster one is the reference, so that the other can be twice as slow.
  auto middle = ordered.begin() + static_cast<long>((ordered.size() - 1) / 2);
  std::nth_element(ordered.begin(), middle, ordered.end());
  double median = *middle / steps_;
  std::optional<std::string> warning;
  for (size_t i = 0; i < sums_.size(); ++i) {
    double mean = sums_[i] / steps_;
    late_[i] = mean > kFactor * median && mean - median > kNoticeable ? late_[i] + 1 : 0;
    if (late_[i] == kSlowSteps)
      warning =
          fmt::format("rank {} is slow: it computes {:.2f} s a step, the others {:.2f} s; all wait for it", i, mean, median);
  }
  std::fill(sums_.begin(), sums_.end(), 0.0);
  steps_ = 0;
  return warning;
}

}  // namespace hone::train
