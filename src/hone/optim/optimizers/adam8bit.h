// AdamW with both moments in 8 bits (blockwise_quantized.h): a quarter of the state, float32 arithmetic.
#pragma once
#include "hone/optim/optimizers/adam.h"
#include "hone/optim/optimizers/blockwise_quantized.h"

namespace hone::optim {

class Adam8bit : public Optimizer {
 public:
  Adam8bit(std::vector<ParameterGroup> groups, const AdamConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct Moments {
    BlockwiseQuantized first, second;
  };
  AdamConfig config_;
  std::vector<std::vector<Moments>> moments_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
