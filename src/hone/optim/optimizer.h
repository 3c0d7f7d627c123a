// Optimizers over named parameter groups. State is plain tensors under stable names, so that checkpoints need no pickle.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::optim {

struct ParameterGroup {
  std::vector<std::string> names;  // checkpoint names, parallel to `parameters`
  TensorList parameters;
  double rate_ratio = 1.0;         // this group's learning rate over the schedule's (LoRA+)
  double weight_decay = 0.0;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class Optimizer {
 public:
  explicit Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;

  virtual void step(double learning_rate) = 0;
  virtual NamedTensors state() const = 0;             // "exp_avg/<parameter name>" …; tensors, not copies
  virtual void load_state(const NamedTensors& state) = 0;  // throws UserError(bad_checkpoint) naming what is missing

  void zero_grad();  // sets gradients to none
  // Norm of all gradients (float32, on the parameters' device) before scaling them down to `max_norm`; 0 means no clipping.
  Tensor clip(double max_norm);
  const std::vector<ParameterGroup>& groups() const { return groups_; }

 protected:
  std::vector<ParameterGroup> groups_;
};

}  // namespace hone::optim
