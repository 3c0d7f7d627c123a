// Dynamic loss scaling for fp16: doubles the scale after a run of finite steps, halves it when a gradient overflows.
#pragma once
#include <algorithm>
#include <cstdint>

#include "hone/base/json.h"
#include "hone/optim/optimizer.h"

namespace hone::optim {

struct LossScalerConfig {
  double initial = 65536.0, growth = 2.0, backoff = 0.5, minimum = 1.0;
  int64_t interval = 2000;  // finite steps before the scale grows
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerConfig& config = {}) : config_(config), scale_(config.initial) {}

  double scale() const { return scale_; }  // multiply the loss by it before backward
  // Divides all gradients by the scale, before clipping.
  void unscale(const Optimizer& optimizer) const {
    at::NoGradGuard no_grad;
    for (const auto& group : optimizer.groups())
      if (auto active = active_parameters(group); !active.gradients.empty()) at::_foreach_mul_(active.gradients, 1.0 / scale_);
  }
  // After the finite check: the step is to be skipped when `finite` is false.
  void update(bool finite) {
    if (!finite) {
      scale_ = std::max(scale_ * config_.backoff, config_.minimum);
      good_steps_ = 0;
    } else if (++good_steps_ == config_.interval) {
      scale_ *= config_.growth;
      good_steps_ = 0;
    }
  }

  Json state() const { return {{"scale", scale_}, {"good_steps", good_steps_}}; }
  void load_state(const Json& state) {
    scale_ = state.value("scale", scale_);
    good_steps_ = state.value("good_steps", good_steps_);
  }

 private:
  LossScalerConfig config_;
  double scale_;
  int64_t good_steps_ = 0;
};

}  // namespace hone::optim
