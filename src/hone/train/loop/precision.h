// Mixed precision: float32 master weights, and the GradScaler of float16.
#pragma once
#include <vector>

#include "hone/base/json.h"
#include "hone/optim/optimizer.h"

namespace hone::train {

// Maps working weights of the model to the optimizer's weights. Gradients of several micro-batches are accumulated in float32, as
// in automatic mixed precision.
class MasterWeights {
 public:
  MasterWeights() = default;
  // Replaces each half-precision parameter of `groups` by a float32 copy; call it before creating the optimizer.
  explicit MasterWeights(std::vector<optim::ParameterGroup>& groups);

  // After each backward pass: moves working gradients to the master weights. With `keep_short`, bfloat16 gradients are kept until
  // a second one is added.
  void accumulate_master_grads(bool keep_short = false);
  void copy_to_model();                         // masters are rounded into the working weights
  void after_update();                          // the same, unless the optimizer did
  void let_write(optim::Optimizer& optimizer);  // if it can
  void reload_from_model();                     // after weights were loaded alone: masters start from them
  optim::NamedTensors state() const;
  void load_state(const optim::NamedTensors& state);

 private:
  struct Pair {
    std::string name;
    Tensor working, master;
  };
  std::vector<Pair> pairs_;
  bool written_by_optimizer_ = false;
};

// Dynamic loss scale: doubles after 2000 good steps, halves on overflow. If disabled, it is exactly 1.
class GradScaler {
 public:
  explicit GradScaler(bool enabled) : enabled_(enabled), scale_(enabled ? 65536.0 : 1.0) {}

  bool enabled() const { return enabled_; }
  double value() const { return scale_; }
  void unscale(optim::Optimizer& optimizer) const;
  // Returns whether the overflow is caused by the scale, so that skipping this step fixes it.
  bool back_off();
  void count_good_step();
  Json state() const { return {{"scale", scale_}, {"good_steps", good_steps_}}; }
  void restore(const Json& state);

 private:
  bool enabled_;
  double scale_;
  int64_t good_steps_ = 0;
};

}  // namespace hone::train
