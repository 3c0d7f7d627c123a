// Small optimizers: SGD with momentum, RMSprop, Adagrad, as in torch.optim.
#pragma once
#include "hone/optim/optimizer.h"

namespace hone::optim {

struct SgdConfig {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParameterGroup> groups, const SgdConfig& config);
  bool scales_gradients() const override;
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  SgdConfig config_;
  std::vector<TensorList> momentum_;  // empty lists without momentum
  Tensor step_ = at::zeros({}, at::kLong);
};

struct RmspropConfig {
  double alpha = 0.99, epsilon = 1e-8, momentum = 0;
  bool centered = false;
};

class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<ParameterGroup> groups, const RmspropConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  RmspropConfig config_;
  std::vector<TensorList> square_, mean_, momentum_;
};

struct AdagradConfig {
  double rate_decay = 0, epsilon = 1e-10;
};

class Adagrad : public Optimizer {
 public:
  Adagrad(std::vector<ParameterGroup> groups, const AdagradConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  AdagradConfig config_;
  std::vector<TensorList> sum_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
