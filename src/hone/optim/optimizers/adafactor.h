// Adafactor as in transformers: factored second moments, update clipping, optional relative step size.
#pragma once
#include <optional>

#include "hone/optim/optimizer.h"

namespace hone::optim {

struct AdafactorConfig {
  double epsilon_gradient = 1e-30, epsilon_scale = 1e-3;
  double clip_threshold = 1.0, decay_rate = -0.8;
  std::optional<double> beta1;
  // The Trainer's values; the class's own defaults are true, true.
  bool scale_parameter = false, relative_step = false, warmup_init = false;
};

class Adafactor : public Optimizer {
 public:
  Adafactor(std::vector<ParameterGroup> groups, const AdafactorConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct Moments {
    TensorList row, column;  // of matrices
    TensorList full;         // of vectors
    TensorList first;        // with beta1 only
  };
  void update(const Tensor& parameter, Moments& moments, size_t i, double rate, double weight_decay);

  AdafactorConfig config_;
  std::vector<Moments> moments_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
