#include "hone/optim/optimizers/adam_mini.h"

#include <cmath>

namespace hone::optim {
namespace {

bool is_query_or_key(const std::string& name) { return name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight"); }

// Number of second moments, as in the authors' code: one per element of a bias, one for a norm, else one per head or row.
int64_t block_count(const std::string& name, const Tensor& parameter, int64_t head_dim) {
  if (name.ends_with("bias")) return 0;
  if (parameter.dim() < 2) return 1;
  const bool by_head = head_dim > 0 && is_query_or_key(name) && parameter.size(0) % head_dim == 0;
  return by_head ? parameter.size(0) / head_dim : parameter.size(0);
}

}  // namespace

AdamMini::AdamMini(std::vector<ParameterGroup> groups, const AdamMiniConfig& config)
    : Optimizer(std::move(groups)), config_(config) {
  for (const auto& group : groups_) {
    auto& moments = moments_.emplace_back();
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const Tensor parameter = group.parameters[i].detach();
      const int64_t blocks = block_count(group.names[i], parameter, config_.head_dim);
      moments.push_back({blocks, at::zeros_like(parameter),
                         blocks == 0 ? at::zeros_like(parameter) : at::zeros({blocks, 1}, parameter.options())});
    }
  }
}

void AdamMini::step(double learning_rate) {
  step_ += 1;
  const auto& adam = config_.adam;
  const double step = static_cast<double>(step_.item<int64_t>());
  const double correction1 = 1 - std::pow(adam.beta1, step), correction2 = std::sqrt(1 - std::pow(adam.beta2, step));
  update_each(groups_, moments_, [&](const ParameterGroup& group, const std::string&, Tensor& parameter, Moments& moments) {
    const double rate = learning_rate * group.lr_scale;
    const Tensor& gradient = parameter.grad();
    const Tensor square = gradient.square();
    moments.second.mul_(adam.beta2)
        .add_(moments.blocks == 0 ? square : square.view({moments.blocks, -1}).mean(1, /*keepdim=*/true), 1 - adam.beta2);
    moments.first.lerp_(gradient, 1 - adam.beta1);
    if (group.weight_decay > 0) parameter.mul_(1 - rate * group.weight_decay);
    const Tensor denominator = (moments.second.sqrt() / correction2).add_(adam.epsilon);
    const Tensor update = moments.blocks == 0 ? moments.first / denominator
                                              : (moments.first.view({moments.blocks, -1}) / denominator).view_as(parameter);
    parameter.add_(update, -rate / correction1);
  });
}

void AdamMini::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, moments_, [&](const std::string& name, Moments& moments) {
    visit("exp_avg/" + name, moments.first);
    visit("exp_avg_sq/" + name, moments.second);
  });
}

}  // namespace hone::optim
