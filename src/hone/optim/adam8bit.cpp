#include "hone/optim/adam8bit.h"

#include <cmath>

namespace hone::optim {

Adam8bit::Adam8bit(std::vector<ParameterGroup> groups, const AdamConfig& config) : Optimizer(std::move(groups)), config_(config) {
  for (const auto& group : groups_) {
    auto& moments = moments_.emplace_back();
    for (const auto& parameter : group.parameters)
      moments.push_back({BlockQuantized(parameter, true), BlockQuantized(parameter, false)});
  }
}

void Adam8bit::step(double learning_rate) {
  at::NoGradGuard no_grad;
  step_ += 1;
  const double step = static_cast<double>(step_.item<int64_t>());
  const double correction1 = 1 - std::pow(config_.beta1, step), correction2 = std::sqrt(1 - std::pow(config_.beta2, step));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const double rate = learning_rate * groups_[g].rate_ratio;
    for (size_t i = 0; i < groups_[g].parameters.size(); ++i) {
      Tensor parameter = groups_[g].parameters[i];
      if (!parameter.grad().defined()) continue;
      Tensor gradient = parameter.grad().to(at::kFloat);
      Moments& moments = moments_[g][i];
      Tensor first = moments.first.values().lerp(gradient, 1 - config_.beta1);
      Tensor second = moments.second.values().mul(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
      moments.first.assign(first);
      moments.second.assign(second);
      Tensor value = parameter.detach().to(at::kFloat).mul(1 - rate * groups_[g].weight_decay);
      value.addcdiv_(first, second.sqrt_().div_(correction2).add_(config_.epsilon), -rate / correction1);
      parameter.copy_(value);
    }
  }
}

void Adam8bit::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < moments_[g].size(); ++i) {
      moments_[g][i].first.visit(visit, "exp_avg/" + groups_[g].names[i]);
      moments_[g][i].second.visit(visit, "exp_avg_sq/" + groups_[g].names[i]);
    }
}

}  // namespace hone::optim
