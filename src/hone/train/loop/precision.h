// Mixed precision: float32 master weights, and the GradScaler of float16.
#pragma once
#include <vector>

#include "hone/base/json.h"
#include "hone/optim/optimizer.h"

namespace hone::train {

// Stands between the weights a model computes with and those the optimizer updates. Gradients of several micro-batches add up in
// float32, as they do under automatic mixed precision.
class MasterWeights {
 public:
  MasterWeights() = default;
  // Replaces each half-precision parameter of `groups` by a float32 copy; do this before the optimizer is made of them.
  explicit MasterWeights(std::vector<optim::ParameterGroup>& groups);

  // After each backward pass: working gradients move into the masters'. With `keep_short` those of bfloat16 stay so until a
  // second one is added.
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

// Dynamic loss scale: doubles after 2000 good steps, halves at each overflow. Disabled it is exactly 1.
class GradScaler {
 public:
  explicit GradScaler(bool enabled) : enabled_(enabled), scale_(enabled ? 65536.0 : 1.0) {}

  bool enabled() const { return enabled_; }
  double value() const { return scale_; }
  void unscale(optim::Optimizer& optimizer) const;
  // Returns whether the overflow is the scale's doing, so that skipping this one step mends it.
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
