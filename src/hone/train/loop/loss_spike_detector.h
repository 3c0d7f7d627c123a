// Detects loss spikes: a loss far above the recent ones, in their standard deviations.
#pragma once
#include <deque>

#include "hone/base/json.h"

namespace hone::train {

class LossSpikeDetector {
 public:
  // The number of standard deviations of the recent losses by which `loss` exceeds their mean; 0 while there are too few. The
  // loss is then added to them, even if its step is skipped: a persistent level soon counts as normal.
  double observe(double loss);

  Json state() const { return recent_; }
  void restore(const Json& state) { recent_ = state.get<std::deque<double>>(); }

 private:
  std::deque<double> recent_;
};

}  // namespace hone::train
