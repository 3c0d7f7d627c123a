// Adam-mini: a second moment per block of a weight (a head of queries or keys, a neuron's row, a whole norm) instead of per
// element.
#pragma once
#include "hone/optim/optimizers/adam.h"
#include "hone/optim/optimizers/each_parameter.h"

namespace hone::optim {

struct AdamMiniConfig {
  AdamConfig adam;
  int64_t head_dim = 0;  // rows of a head in q_proj and k_proj; 0: every row is a block
};

class AdamMini : public Optimizer {
 public:
  AdamMini(std::vector<ParameterGroup> groups, const AdamMiniConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct Moments {
    int64_t blocks = 0;  // 0: a second moment per element
    Tensor first, second;
  };
  AdamMiniConfig config_;
  PerParameterState<Moments> moments_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
