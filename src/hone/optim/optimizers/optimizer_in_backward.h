// One optimizer per parameter, which updates it in the backward pass as soon as its gradient is complete and then frees the
// gradient, so that all gradients never exist at once. Same results as a single optimizer, without clipping by the global norm.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/optim/factory.h"

namespace hone::optim {

class OptimizerInBackward : public Optimizer {
 public:
  OptimizerInBackward(const OptimizerConfig& config, std::vector<ParameterGroup> groups);
  ~OptimizerInBackward() override;

  void before_last_backward(double learning_rate) override;
  void step(double learning_rate) override;  // the rest: gradients that are not finite were kept for the check of the norm
  void visit_state(const StateVisitor& visit) override;

 private:
  class Hook;
  void update(size_t index);

  std::vector<std::unique_ptr<Optimizer>> each_;  // in the order of the groups' parameters
  TensorList parameters_;
  std::vector<std::string> names_;
  std::optional<double> rate_;  // set while updates happen in the backward pass
};

}  // namespace hone::optim
