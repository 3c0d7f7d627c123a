// Adam and AdamW. One fused call per group where the device has it: bit for bit what torch's fused optimizers do on the CPU,
// within float32's rounding of them on a GPU (ops/cuda/adam.h).
#pragma once
#include <unordered_map>

#include "hone/optim/optimizer.h"

namespace hone::optim {

struct AdamConfig {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decoupled_decay = true;  // AdamW; false adds the decay to the gradient (Adam with L2)
  // What the moments of float32 parameters are rounded to after each step, which computes in float32: float32 or bfloat16. Those
  // of other parameters have the parameter's type.
  at::ScalarType exp_avg_dtype = at::kFloat, exp_avg_sq_dtype = at::kFloat;

  bool rounds_moments() const { return exp_avg_dtype != at::kFloat || exp_avg_sq_dtype != at::kFloat; }
};

class Adam : public Optimizer {
 public:
  Adam(std::vector<ParameterGroup> groups, const AdamConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;
  bool scales_gradients() const override;
  bool write_along(const std::vector<std::pair<Tensor, Tensor>>& copies) override;
  void uncount_step() override { step_ -= 1; }

 private:
  TensorList copies_of(const TensorList& parameters) const;  // undefined where there is none
  struct Moments {
    TensorList first, second;
  };
  AdamConfig config_;
  std::unordered_map<const void*, Tensor> copies_;  // by parameter, what is written along
  std::vector<Moments> moments_;                    // one per group
  Tensor step_ = at::zeros({}, at::kLong);          // on the host; counts updates of the whole set
};

}  // namespace hone::optim
