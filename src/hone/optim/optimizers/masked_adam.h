// BAdam by ratio: Adam on a small fraction of every weight's elements, which changes every few steps. Moments exist for that
// fraction only.
#pragma once
#include <string>
#include <vector>

#include "hone/optim/optimizers/adam.h"
#include "hone/optim/optimizers/each_parameter.h"

namespace hone::optim {

struct MaskedAdamConfig {
  AdamConfig adam;
  double ratio = 0.05;
  int64_t interval = 50;  // steps a share stays; 0 and less: forever
  bool scatter = false;   // elements anywhere instead of adjacent ones
};

class MaskedAdam : public Optimizer {
 public:
  MaskedAdam(std::vector<ParameterGroup> groups, const MaskedAdamConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct SparseMoments {
    Tensor first, second;  // undefined for embeddings and the head, which are not trained
  };
  int64_t window() const;  // how many shares were done with before the present one
  Tensor chosen_elements(const std::string& name, const Tensor& parameter, int64_t count) const;

  MaskedAdamConfig config_;
  PerParameterState<SparseMoments> shares_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
