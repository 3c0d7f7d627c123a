#include "hone/optim/optimizers/sgd_rmsprop_adagrad.h"

namespace hone::optim {
namespace {

// Weight decay as an L2 penalty: added to the gradient, as in torch.optim's older classes.
TensorList with_weight_decay(const ActiveParameters& active, double weight_decay) {
  return weight_decay == 0 ? active.gradients : at::_foreach_add(active.gradients, active.parameters, weight_decay);
}

std::vector<TensorList> zeros_per_group(const std::vector<ParameterGroup>& groups, bool wanted) {
  std::vector<TensorList> zeros;
  for (const auto& group : groups) zeros.push_back(wanted ? zeros_like_group(group) : TensorList());
  return zeros;
}

void visit_slots(const Optimizer::StateVisitor& visit, const std::string& slot, const std::vector<ParameterGroup>& groups,
                 std::vector<TensorList>& tensors) {
  for (size_t g = 0; g < groups.size(); ++g) visit_slot(visit, slot, groups[g], tensors[g]);
}

}  // namespace

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdConfig& config)
    : Optimizer(std::move(groups)), config_(config), momentum_(zeros_per_group(groups_, config.momentum != 0)) {}

// On the host the clipping factor is known, and multiplying gradients by it would be one more pass over memory.
bool Sgd::scales_gradients() const {
  return std::ranges::all_of(groups_, [](const auto& group) {
    return std::ranges::all_of(group.parameters, [](const Tensor& p) { return p.is_cpu(); });
  });
}

void Sgd::step(double learning_rate) {
  at::NoGradGuard no_grad;
  const bool first = step_.item<int64_t>() == 0;
  step_ += 1;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto active = active_parameters(groups_[g]);
    if (active.parameters.empty()) continue;
    TensorList gradients = active.gradients;
    double factor = clipping_.defined() ? clipping_.item<double>() : 1;
    const auto add_to = [&](TensorList sum) {  // becomes the gradients
      at::_foreach_add_(sum, gradients, factor);
      gradients = std::move(sum);
      factor = 1;
    };
    if (groups_[g].weight_decay != 0) add_to(at::_foreach_mul(active.parameters, groups_[g].weight_decay));
    if (config_.momentum != 0) {
      TensorList momentum = pick(momentum_[g], active.positions);
      at::_foreach_mul_(momentum, config_.momentum);
      at::_foreach_add_(momentum, gradients, factor * (first ? 1.0 : 1.0 - config_.dampening));
      if (config_.nesterov)
        add_to(at::_foreach_mul(momentum, config_.momentum));
      else
        gradients = momentum, factor = 1;
    }
    at::_foreach_add_(active.parameters, gradients, -learning_rate * groups_[g].lr_scale * factor);
  }
}

void Sgd::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_slots(visit, "momentum_buffer", groups_, momentum_);
}

Rmsprop::Rmsprop(std::vector<ParameterGroup> groups, const RmspropConfig& config)
    : Optimizer(std::move(groups)),
      config_(config),
      square_(zeros_per_group(groups_, true)),
      mean_(zeros_per_group(groups_, config.centered)),
      momentum_(zeros_per_group(groups_, config.momentum != 0)) {}

void Rmsprop::step(double learning_rate) {
  at::NoGradGuard no_grad;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto active = active_parameters(groups_[g]);
    if (active.parameters.empty()) continue;
    const double rate = learning_rate * groups_[g].lr_scale;
    TensorList gradients = with_weight_decay(active, groups_[g].weight_decay);
    TensorList square = pick(square_[g], active.positions);
    at::_foreach_mul_(square, config_.alpha);
    at::_foreach_addcmul_(square, gradients, gradients, 1 - config_.alpha);
    TensorList denominator = square;
    if (config_.centered) {
      TensorList mean = pick(mean_[g], active.positions);
      at::_foreach_lerp_(mean, gradients, 1 - config_.alpha);
      denominator = at::_foreach_addcmul(square, mean, mean, -1.0);
    }
    denominator = at::_foreach_sqrt(denominator);
    at::_foreach_add_(denominator, config_.epsilon);
    if (config_.momentum == 0) {
      at::_foreach_addcdiv_(active.parameters, gradients, denominator, -rate);
    } else {
      TensorList momentum = pick(momentum_[g], active.positions);
      at::_foreach_mul_(momentum, config_.momentum);
      at::_foreach_addcdiv_(momentum, gradients, denominator, 1.0);
      at::_foreach_add_(active.parameters, momentum, -rate);
    }
  }
}

void Rmsprop::visit_state(const StateVisitor& visit) {
  visit_slots(visit, "square_avg", groups_, square_);
  visit_slots(visit, "grad_avg", groups_, mean_);
  visit_slots(visit, "momentum_buffer", groups_, momentum_);
}

Adagrad::Adagrad(std::vector<ParameterGroup> groups, const AdagradConfig& config)
    : Optimizer(std::move(groups)), config_(config), sum_(zeros_per_group(groups_, true)) {}

void Adagrad::step(double learning_rate) {
  at::NoGradGuard no_grad;
  const double rate = learning_rate / (1 + static_cast<double>(step_.item<int64_t>()) * config_.rate_decay);
  step_ += 1;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto active = active_parameters(groups_[g]);
    if (active.parameters.empty()) continue;
    TensorList gradients = with_weight_decay(active, groups_[g].weight_decay);
    TensorList sum = pick(sum_[g], active.positions);
    at::_foreach_addcmul_(sum, gradients, gradients, 1.0);
    TensorList denominator = at::_foreach_sqrt(sum);
    at::_foreach_add_(denominator, config_.epsilon);
    at::_foreach_addcdiv_(active.parameters, gradients, denominator, -rate * groups_[g].lr_scale);
  }
}

void Adagrad::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_slots(visit, "sum", groups_, sum_);
}

}  // namespace hone::optim
