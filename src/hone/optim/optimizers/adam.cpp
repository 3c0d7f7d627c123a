#include "hone/optim/optimizers/adam.h"

#include <algorithm>
#include <cmath>

#include "hone/device/tensor_identity.h"
#include "hone/ops/cuda/adam.h"
#include "hone/optim/cpu_adam.h"

namespace hone::optim {
namespace {

bool has_fused_adam(const Tensor& parameter) { return parameter.is_cpu() || parameter.is_cuda(); }

void foreach_update(const AdamUpdate& u, const AdamConfig& config) {
  TensorList gradients = u.gradients;
  if (config.decoupled_decay && u.weight_decay != 0) at::_foreach_mul_(u.parameters, 1 - u.rate * u.weight_decay);
  if (!config.decoupled_decay && u.weight_decay != 0) gradients = at::_foreach_add(gradients, u.parameters, u.weight_decay);
  at::_foreach_lerp_(u.first, gradients, 1 - config.beta1);
  at::_foreach_mul_(u.second, config.beta2);
  at::_foreach_addcmul_(u.second, gradients, gradients, 1 - config.beta2);
  const double correction1 = 1 - std::pow(config.beta1, u.step), correction2 = 1 - std::pow(config.beta2, u.step);
  TensorList denominators = at::_foreach_sqrt(u.second);
  at::_foreach_div_(denominators, std::sqrt(correction2));
  at::_foreach_add_(denominators, config.epsilon);
  at::_foreach_addcdiv_(u.parameters, u.first, denominators, -u.rate / correction1);
}

void float_update(const AdamUpdate& update, const AdamConfig& config) {
  if (supports_cpu_adam(update, config))
    cpu_adam(update, config);
  else if (has_fused_adam(update.parameters.front()))
    libtorch_adam(update, config);
  else
    foreach_update(update, config);
}

TensorList zero_moments(const ParameterGroup& group, at::ScalarType type) {
  TensorList zeros;
  for (const auto& parameter : group.parameters) {
    const auto own = parameter.scalar_type();
    zeros.push_back(at::zeros_like(parameter.detach(), at::TensorOptions().dtype(own == at::kFloat ? type : own)));
  }
  return zeros;
}

bool has_rounded_moments(const AdamUpdate& u) {
  for (size_t i = 0; i < u.parameters.size(); ++i)
    if (u.first[i].dtype() != u.parameters[i].dtype() || u.second[i].dtype() != u.parameters[i].dtype()) return true;
  return false;
}

// Parameters with float32 copies of rounded moments, which are limited in size: larger tensors are split.
class WidenedUpdate {
 public:
  explicit WidenedUpdate(const AdamConfig& config) : config_(config) {}

  void run(const AdamUpdate& u) {
    piece_.rate = u.rate, piece_.weight_decay = u.weight_decay, piece_.step = u.step;
    for (size_t i = 0; i < u.parameters.size(); ++i) add(u.parameters[i], u.gradients[i], u.first[i], u.second[i]);
    flush();
  }

 private:
  static constexpr int64_t kMostElements = int64_t{1} << 24;

  void add(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second) {
    if (parameter.numel() <= kMostElements || !parameter.is_contiguous()) return add_piece(parameter, gradient, first, second);
    for (int64_t begin = 0; begin < parameter.numel(); begin += kMostElements) {
      const int64_t length = std::min(kMostElements, parameter.numel() - begin);
      auto part = [&](const Tensor& tensor) { return tensor.detach().reshape({-1}).narrow(0, begin, length); };
      add_piece(part(parameter), part(gradient), part(first), part(second));
    }
  }

  void add_piece(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second) {
    if (held_ > 0 && held_ + parameter.numel() > kMostElements) flush();
    held_ += parameter.numel();
    piece_.parameters.push_back(parameter);
    piece_.gradients.push_back(gradient);
    piece_.first.push_back(widened(first, parameter));
    piece_.second.push_back(widened(second, parameter));
  }

  Tensor widened(const Tensor& moment, const Tensor& parameter) {
    if (moment.dtype() == parameter.dtype()) return moment;
    rounded_.push_back(moment);
    return copies_.emplace_back(moment.to(parameter.scalar_type()));
  }

  void flush() {
    if (held_ == 0) return;
    float_update(piece_, config_);
    at::_foreach_copy_(rounded_, copies_);
    for (auto* list : {&piece_.parameters, &piece_.gradients, &piece_.first, &piece_.second, &rounded_, &copies_}) list->clear();
    held_ = 0;
  }

  const AdamConfig& config_;
  AdamUpdate piece_{};
  TensorList rounded_, copies_;
  int64_t held_ = 0;
};

}  // namespace

Adam::Adam(std::vector<ParameterGroup> groups, const AdamConfig& config) : Optimizer(std::move(groups)), config_(config) {
  for (const auto& group : groups_)
    moments_.push_back({zero_moments(group, config.exp_avg_dtype), zero_moments(group, config.exp_avg_sq_dtype)});
}

void Adam::step(double learning_rate) {
  at::NoGradGuard no_grad;
  step_ += 1;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = groups_[g];
    auto active = active_parameters(group);
    if (active.parameters.empty()) continue;
    AdamUpdate update{std::move(active.parameters),
                      std::move(active.gradients),
                      pick(moments_[g].first, active.positions),
                      pick(moments_[g].second, active.positions),
                      learning_rate * group.lr_scale,
                      group.weight_decay,
                      step_.item<int64_t>()};
    if (scales_gradients())
      ops::cuda::adam_(update.parameters, update.gradients, update.first, update.second, copies_of(update.parameters),
                       {clipping_, guard_},
                       {update.rate, config_.beta1, config_.beta2, config_.epsilon, update.weight_decay, config_.decoupled_decay,
                        update.step});
    else if (has_rounded_moments(update))
      WidenedUpdate(config_).run(update);
    else
      float_update(update, config_);
  }
  guard_.reset();
}

bool Adam::write_along(const std::vector<std::pair<Tensor, Tensor>>& copies) {
  if (!scales_gradients()) return false;
  for (const auto& [parameter, copy] : copies)
    if (copy.scalar_type() != at::kBFloat16 || !copy.is_contiguous() || copy.device() != parameter.device()) return false;
  for (const auto& [parameter, copy] : copies) copies_[device::identity_of(parameter)] = copy.detach();
  return true;
}

TensorList Adam::copies_of(const TensorList& parameters) const {
  TensorList copies;
  for (const auto& parameter : parameters) {
    auto found = copies_.find(device::identity_of(parameter));
    copies.push_back(found == copies_.end() ? Tensor() : found->second);
  }
  return copies;
}

bool Adam::scales_gradients() const {
  const Tensor* first = nullptr;
  for (const auto& group : groups_)
    for (const auto& parameter : group.parameters) {
      if (!first) first = &parameter;
      if (!ops::cuda::supports_adam(parameter) || parameter.device() != first->device()) return false;
    }
  return first != nullptr;
}

void Adam::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    visit_slot(visit, "exp_avg", groups_[g], moments_[g].first);
    visit_slot(visit, "exp_avg_sq", groups_[g], moments_[g].second);
  }
}

}  // namespace hone::optim
