#include "hone/optim/optimizers/galore.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"

namespace hone::optim {

Galore::Galore(std::vector<ParameterGroup> groups, const GaloreConfig& config) : Optimizer(std::move(groups)), config_(config) {
  bool any = false;
  for (const auto& group : groups_) {
    auto& states = states_.emplace_back();
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      states.push_back(initial_state(group.names[i], group.parameters[i]));
      any |= states.back().side != Projection::none;
    }
  }
  if (!any && !config_.alone_at)
    throw UserError(ExitCode::usage, fmt::format("GaLore: no trained matrix matches {}", fmt::join(config_.targets, ", ")),
                    "GaLore projects full weights; use it with full or freeze tuning, not with LoRA");
}

Galore::State Galore::initial_state(const std::string& name, const Tensor& parameter) const {
  State state;
  auto shape = parameter.sizes().vec();
  const auto options = parameter.options().requires_grad(false);
  if (is_projected(config_.targets, name, parameter)) {
    state.side = projection_side(config_.projection, parameter);
    const int64_t rank = std::min({config_.rank, shape[0], shape[1]});
    if (state.side != Projection::right) state.left = at::zeros({shape[0], rank}, options);
    if (state.side != Projection::left) state.right = at::zeros({rank, shape[1]}, options);
    if (state.left.defined()) shape[0] = rank;
    if (state.right.defined()) shape[1] = rank;
  }
  state.moments = {at::zeros(shape, options), at::zeros(shape, options)};
  return state;
}

void Galore::refresh_projector(State& state, const Tensor& gradient) const {
  auto [u, s, vh] = at::linalg_svd(gradient.to(at::kFloat), /*full_matrices=*/false);
  if (state.left.defined()) state.left.copy_(u.slice(1, 0, state.left.size(1)));
  if (state.right.defined()) state.right.copy_(vh.slice(0, 0, state.right.size(0)));
}

void Galore::step(double learning_rate) {
  const bool refresh = step_.item<int64_t>() % config_.update_interval == 0;
  step_ += 1;
  const double correction = bias_correction(config_.adam, step_.item<int64_t>());
  update_each(groups_, states_, [&](const ParameterGroup& group, const std::string&, Tensor& parameter, State& state) {
    const double rate = learning_rate * group.lr_scale;
    Tensor gradient = parameter.grad();
    if (refresh && state.side != Projection::none) refresh_projector(state, gradient);
    if (state.left.defined()) gradient = state.left.t().mm(gradient);
    if (state.right.defined()) gradient = gradient.mm(state.right.t());
    Tensor update = state.moments.direction(gradient, config_.adam);
    if (state.left.defined()) update = state.left.mm(update);
    if (state.right.defined()) update = update.mm(state.right);
    if (state.side != Projection::none) update.mul_(config_.scale);
    parameter.add_(update, -rate * correction);
    if (group.weight_decay > 0) parameter.mul_(1 - rate * group.weight_decay);
  });
}

void Galore::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, states_, [&](const std::string& name, State& state) {
    if (state.left.defined()) visit("projector_left/" + name, state.left);
    if (state.right.defined()) visit("projector_right/" + name, state.right);
    visit("exp_avg/" + name, state.moments.first);
    visit("exp_avg_sq/" + name, state.moments.second);
  });
}

}  // namespace hone::optim
