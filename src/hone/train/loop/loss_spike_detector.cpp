#include "hone/train/loop/loss_spike_detector.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hone::train {
namespace {

constexpr size_t kRecentLosses = 128, kFewestLosses = 16;
constexpr double kSmallestSpread = 0.01;  // relative to the mean: with almost constant losses everything would be a spike

}  // namespace

double LossSpikeDetector::observe(double loss) {
  double sigmas = 0;
  if (recent_.size() >= kFewestLosses) {
    auto count = static_cast<double>(recent_.size());
    double mean = std::accumulate(recent_.begin(), recent_.end(), 0.0) / count;
    double squares =
        std::accumulate(recent_.begin(), recent_.end(), 0.0, [&](double sum, double x) { return sum + (x - mean) * (x - mean); });
    double spread = std::max(std::sqrt(squares / count), kSmallestSpread * std::abs(mean));
    if (spread > 0) sigmas = (loss - mean) / spread;
  }
  recent_.push_back(loss);
  if (recent_.size() > kRecentLosses) recent_.pop_front();
  return sigmas;
}

}  // namespace hone::train
