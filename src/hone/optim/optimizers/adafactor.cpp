#include "hone/optim/optimizers/adafactor.h"

#include <cmath>

#include "hone/base/error.h"

namespace hone::optim {
namespace {

Tensor root_mean_square(const Tensor& x) { return x.norm(2) / std::sqrt(static_cast<double>(x.numel())); }

Tensor inverse_root_of_factored(const Tensor& row, const Tensor& column) {
  return (row / row.mean(-1, true)).rsqrt_().unsqueeze(-1) * column.unsqueeze(-2).rsqrt();
}

}  // namespace

Adafactor::Adafactor(std::vector<ParameterGroup> groups, const AdafactorConfig& config)
    : Optimizer(std::move(groups)), config_(config) {
  if (config_.warmup_init && !config_.relative_step)
    throw UserError(ExitCode::usage, "Adafactor's warmup_init=True needs relative_step=True");
  for (const auto& group : groups_) {
    Moments moments;
    for (const auto& parameter : group.parameters) {
      auto options = parameter.options().dtype(at::kFloat).requires_grad(false);
      const bool factored = parameter.dim() >= 2;
      auto sizes = parameter.sizes().vec();
      auto column_sizes = sizes;
      if (factored) column_sizes.erase(column_sizes.end() - 2);
      moments.row.push_back(factored ? at::zeros(at::IntArrayRef(sizes).slice(0, sizes.size() - 1), options) : Tensor());
      moments.column.push_back(factored ? at::zeros(column_sizes, options) : Tensor());
      moments.full.push_back(factored ? Tensor() : at::zeros(sizes, options));
      moments.first.push_back(config_.beta1 ? at::zeros(sizes, options) : Tensor());
    }
    moments_.push_back(std::move(moments));
  }
}

void Adafactor::update(const Tensor& parameter, Moments& moments, size_t i, double rate, double weight_decay) {
  const double step = static_cast<double>(step_.item<int64_t>());
  Tensor gradient = parameter.grad().to(at::kFloat), value = parameter.detach().to(at::kFloat);
  if (config_.relative_step) rate = std::min(config_.warmup_init ? 1e-6 * step : 1e-2, 1.0 / std::sqrt(step));
  // A tensor, so that the parameter's scale is never copied to the host.
  Tensor scaled_rate = config_.scale_parameter ? at::clamp_min(root_mean_square(value), config_.epsilon_scale) * rate
                                               : at::full({}, rate, gradient.options());
  const double beta2 = 1.0 - std::pow(step, config_.decay_rate);
  Tensor update = gradient.square() + config_.epsilon_gradient;
  if (moments.row[i].defined()) {
    moments.row[i].mul_(beta2).add_(update.mean(-1), 1.0 - beta2);
    moments.column[i].mul_(beta2).add_(update.mean(-2), 1.0 - beta2);
    update = inverse_root_of_factored(moments.row[i], moments.column[i]).mul_(gradient);
  } else {
    moments.full[i].mul_(beta2).add_(update, 1.0 - beta2);
    update = moments.full[i].rsqrt().mul_(gradient);
  }
  update.div_((root_mean_square(update) / config_.clip_threshold).clamp_min_(1.0));
  update.mul_(scaled_rate);
  if (config_.beta1) update = moments.first[i].mul_(*config_.beta1).add_(update, 1 - *config_.beta1);
  if (weight_decay != 0) value = value + value * (scaled_rate * -weight_decay);
  parameter.copy_(value - update);
}

void Adafactor::step(double learning_rate) {
  at::NoGradGuard no_grad;
  step_ += 1;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < groups_[g].parameters.size(); ++i)
      if (groups_[g].parameters[i].grad().defined())
        update(groups_[g].parameters[i], moments_[g], i, learning_rate * groups_[g].lr_scale, groups_[g].weight_decay);
}

void Adafactor::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    visit_slot(visit, "exp_avg_sq_row", groups_[g], moments_[g].row);
    visit_slot(visit, "exp_avg_sq_col", groups_[g], moments_[g].column);
    visit_slot(visit, "exp_avg_sq", groups_[g], moments_[g].full);
    visit_slot(visit, "exp_avg", groups_[g], moments_[g].first);
  }
}

}  // namespace hone::optim
