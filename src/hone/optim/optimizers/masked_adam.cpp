#include "hone/optim/optimizers/masked_adam.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/stable_hash.h"
#include "hone/optim/optimizers/adam_moments.h"

namespace hone::optim {
namespace {

bool is_word_matrix(const std::string& name) {
  return name.find("embed") != std::string::npos || name.find("lm_head") != std::string::npos;
}

int64_t share_size(const Tensor& parameter, double ratio) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(parameter.numel()) * ratio));
}

}  // namespace

MaskedAdam::MaskedAdam(std::vector<ParameterGroup> groups, const MaskedAdamConfig& config)
    : Optimizer(std::move(groups)), config_(config) {
  if (config_.ratio <= 0 || config_.ratio > 1)
    throw UserError(ExitCode::usage, fmt::format("`badam_update_ratio` is {}", config_.ratio),
                    "expected a share above 0, up to 1");
  for (const auto& group : groups_) {
    auto& shares = shares_.emplace_back();
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      Tensor parameter = group.parameters[i];
      const bool trained = !is_word_matrix(group.names[i]);
      parameter.requires_grad_(trained);
      const auto options = parameter.options().requires_grad(false);
      const int64_t size = share_size(parameter, config_.ratio);
      shares.push_back(trained ? SparseMoments{at::zeros({size}, options), at::zeros({size}, options)} : SparseMoments{});
    }
  }
}

int64_t MaskedAdam::window() const { return config_.interval > 0 ? step_.item<int64_t>() / config_.interval : 0; }

// Flat indices. Masks of consecutive updates cover the weight in order and wrap around at its end.
Tensor MaskedAdam::chosen_elements(const std::string& name, const Tensor& parameter, int64_t count) const {
  const int64_t total = parameter.numel(), offset = window() * count % total;
  const Tensor places = at::arange(offset, offset + count, at::kLong).remainder_(total);
  if (!config_.scatter) return places.to(parameter.device());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(stable_hash(name));
  return at::randperm(total, generator, at::kLong).index_select(0, places).to(parameter.device());
}

void MaskedAdam::step(double learning_rate) {
  const auto& adam = config_.adam;
  const int64_t in_window = config_.interval > 0 ? step_.item<int64_t>() % config_.interval : step_.item<int64_t>();
  const double correction = bias_correction(adam, in_window + 1);
  update_each(groups_, shares_,
              [&](const ParameterGroup& group, const std::string& name, Tensor& parameter, SparseMoments& share) {
                if (!share.first.defined()) return;
                if (in_window == 0) share.first.zero_(), share.second.zero_();
                const Tensor elements = chosen_elements(name, parameter, share.first.numel());
                const Tensor gradient = parameter.grad().reshape({-1}).index_select(0, elements);
                share.first.lerp_(gradient, 1 - adam.beta1);
                share.second.lerp_(gradient.square(), 1 - adam.beta2);
                const Tensor update = share.first / share.second.sqrt().add_(adam.epsilon);
                parameter.view({-1}).index_add_(0, elements, update, -learning_rate * group.lr_scale * correction);
              });
  step_ += 1;
}

void MaskedAdam::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, shares_, [&](const std::string& name, SparseMoments& share) {
    if (!share.first.defined()) return;
    visit("exp_avg/" + name, share.first);
    visit("exp_avg_sq/" + name, share.second);
  });
}

}  // namespace hone::optim
