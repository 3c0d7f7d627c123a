#include "hone/optim/optimizers/lion.h"

namespace hone::optim {

Lion::Lion(std::vector<ParameterGroup> groups, const LionConfig& config) : Optimizer(std::move(groups)), config_(config) {
  for (const auto& group : groups_) {
    momentum_.push_back(config_.eight_bit ? TensorList() : zeros_like_group(group));
    auto& quantized = momentum8_.emplace_back();
    if (config_.eight_bit)
      for (const auto& parameter : group.parameters) quantized.emplace_back(parameter, true);
  }
}

void Lion::step(double learning_rate) {
  at::NoGradGuard no_grad;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto active = active_parameters(groups_[g]);
    if (active.parameters.empty()) continue;
    const double rate = learning_rate * groups_[g].lr_scale;
    TensorList momentum;
    if (config_.eight_bit) {
      for (size_t position : active.positions)
        momentum.push_back(momentum8_[g][position].dequantize().to(groups_[g].parameters[position].scalar_type()));
    } else {
      momentum = pick(momentum_[g], active.positions);
    }
    TensorList direction = at::_foreach_sign(at::_foreach_lerp(momentum, active.gradients, 1 - config_.beta1));
    if (groups_[g].weight_decay != 0) at::_foreach_mul_(active.parameters, 1 - rate * groups_[g].weight_decay);
    at::_foreach_add_(active.parameters, direction, -rate);
    at::_foreach_lerp_(momentum, active.gradients, 1 - config_.beta2);
    if (config_.eight_bit)
      for (size_t i = 0; i < momentum.size(); ++i) momentum8_[g][active.positions[i]].quantize(momentum[i].to(at::kFloat));
  }
}

void Lion::visit_state(const StateVisitor& visit) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    visit_slot(visit, "exp_avg", groups_[g], momentum_[g]);
    for (size_t i = 0; i < momentum8_[g].size(); ++i) momentum8_[g][i].visit(visit, "exp_avg/" + groups_[g].names[i]);
  }
}

}  // namespace hone::optim
