// Detects loss spikes: a loss far above the recent ones, in their standard deviations.
#pragma once
#include <deque>

#include "hone/base/json.h"

namespace hone::train {

class LossSpikeDetector {
 public:
  // How many standard deviations of the recent losses `loss` is above their mean; 0 while too few are known to say. The loss then
  // counts among them, whatever becomes of its step: a level that stays is soon no longer new.
  double observe(double loss);

  Json state() const { return recent_; }
  void restore(const Json& state) { recent_ = state.get<std::deque<double>>(); }

 private:
  std::deque<double> recent_;
};

}  // namespace hone::train
