// Lion: the sign of an interpolated momentum, decoupled decay. The momentum may be kept in 8 bits.
#pragma once
#include "hone/optim/optimizers/blockwise_quantized.h"

namespace hone::optim {

struct LionConfig {
  double beta1 = 0.9, beta2 = 0.99;
  bool eight_bit = false;
};

class Lion : public Optimizer {
 public:
  Lion(std::vector<ParameterGroup> groups, const LionConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  LionConfig config_;
  std::vector<TensorList> momentum_;
  std::vector<std::vector<BlockwiseQuantized>> momentum8_;
};

}  // namespace hone::optim
