#include "hone/optim/optimizers/adam8bit.h"

#include <cmath>

#include "hone/optim/optimizers/each_parameter.h"

namespace hone::optim {

Adam8bit::Adam8bit(std::vector<ParameterGroup> groups, const AdamConfig& config) : Optimizer(std::move(groups)), config_(config) {
  for (const auto& group : groups_) {
    auto& moments = moments_.emplace_back();
    for (const auto& parameter : group.parameters)
      moments.push_back({BlockwiseQuantized(parameter, true), BlockwiseQuantized(parameter, false)});
  }
}

void Adam8bit::step(double learning_rate) {
  step_ += 1;
  const double step = static_cast<double>(step_.item<int64_t>());
  const double correction1 = 1 - std::pow(config_.beta1, step), correction2 = std::sqrt(1 - std::pow(config_.beta2, step));
  update_each(groups_, moments_, [&](const ParameterGroup& group, const std::string&, Tensor& parameter, Moments& moments) {
    const double rate = learning_rate * group.lr_scale;
    Tensor gradient = parameter.grad().to(at::kFloat);
    Tensor first = moments.first.dequantize().lerp(gradient, 1 - config_.beta1);
    Tensor second = moments.second.dequantize().mul(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
    moments.first.quantize(first);
    moments.second.quantize(second);
    Tensor value = parameter.detach().to(at::kFloat).mul(1 - rate * group.weight_decay);
    value.addcdiv_(first, second.sqrt_().div_(correction2).add_(config_.epsilon), -rate / correction1);
    parameter.copy_(value);
  });
}

void Adam8bit::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, moments_, [&](const std::string& name, Moments& moments) {
    moments.first.visit(visit, "exp_avg/" + name);
    moments.second.visit(visit, "exp_avg_sq/" + name);
  });
}

}  // namespace hone::optim
