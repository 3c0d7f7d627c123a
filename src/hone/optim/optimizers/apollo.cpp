#include "hone/optim/optimizers/apollo.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hone/base/error.h"

namespace hone::optim {
namespace {

constexpr double kGrowthLimit = 1.01, kTiny = 1e-8;

// Drawn on the host, so that the projection is the same on every device.
Tensor random_matrix(at::IntArrayRef shape, int64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randn(shape, generator, at::kFloat);
}

// The authors' sequence of seeds, so that runs agree with theirs.
int64_t next_seed(int64_t seed) {
  constexpr int64_t kAdvance = 15;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  auto drawn = at::randint(0, std::numeric_limits<int64_t>::max(), {kAdvance}, generator, at::kLong);
  return drawn[kAdvance - 1].item<int64_t>();
}

}  // namespace

Apollo::Apollo(std::vector<ParameterGroup> groups, const ApolloConfig& config) : Optimizer(std::move(groups)), config_(config) {
  int64_t seed = config_.alone_at.value_or(0);
  bool any = false;
  for (const auto& group : groups_) {
    auto& states = states_.emplace_back();
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      states.push_back(initial_state(group.names[i], group.parameters[i], ++seed));
      any |= states.back().side != Projection::none;
    }
  }
  if (!any && !config_.alone_at)
    throw UserError(ExitCode::usage, fmt::format("APOLLO: no trained matrix matches {}", fmt::join(config_.targets, ", ")),
                    "APOLLO projects full weights; use it with full or freeze tuning, not with LoRA");
}

Apollo::State Apollo::initial_state(const std::string& name, const Tensor& parameter, int64_t seed) const {
  State state;
  auto shape = parameter.sizes().vec();
  const auto options = parameter.options().requires_grad(false);
  if (is_projected(config_.targets, name, parameter)) {
    state.side = projection_side(config_.projection, parameter);
    if (state.side == Projection::full)
      throw UserError(ExitCode::usage, "APOLLO projects one side only", "proj_type is one of std, reverse_std, right, left");
    const bool left = state.side == Projection::left;
    const int64_t rank = config_.by_svd ? std::min({config_.rank, shape[0], shape[1]}) : config_.rank;
    state.projector = left ? at::zeros({shape[0], rank}, options) : at::zeros({rank, shape[1]}, options);
    state.seed = at::full({}, seed, at::kLong);
    state.norm = at::zeros({}, options);
    shape[left ? 0 : 1] = rank;
  }
  state.moments = {at::zeros(shape, options), at::zeros(shape, options)};
  return state;
}

void Apollo::refresh_projector(State& state, const Tensor& gradient) const {
  const bool left = state.side == Projection::left;
  const int64_t rank = state.projector.size(left ? 1 : 0);
  if (config_.by_svd) {
    auto [u, s, vh] = at::linalg_svd(gradient.to(at::kFloat), /*full_matrices=*/false);
    state.projector.copy_(left ? u.slice(1, 0, rank) : vh.slice(0, 0, rank));
    return;
  }
  const int64_t seed = state.seed.item<int64_t>();
  state.projector.copy_(random_matrix(state.projector.sizes(), seed) / std::sqrt(static_cast<double>(rank)));
  state.seed.fill_(next_seed(seed));
}

// Scales each channel of the gradient as Adam scales its projection, growing by at most one percent per step.
Tensor Apollo::scaled_gradient(State& state, const Tensor& gradient, const Tensor& projected, const Tensor& direction) const {
  const int64_t low_rank_dim = state.side == Projection::left ? 0 : 1;
  const auto length = [&](const Tensor& x) {
    return config_.per_channel ? at::linalg_vector_norm(x, 2, low_rank_dim, /*keepdim=*/true) : at::linalg_vector_norm(x, 2);
  };
  Tensor scaled = gradient * (length(direction) / (length(projected) + kTiny));
  const double scale = std::sqrt(config_.scale);
  if (config_.scale_front) scaled.mul_(scale);
  const Tensor norm = at::linalg_vector_norm(scaled, 2);
  const Tensor growth = (norm / (state.norm + kTiny)).clamp_min_(kGrowthLimit).div_(kGrowthLimit);
  const Tensor limit = at::where(state.norm > 0, growth, at::ones_like(norm));  // the first update has no previous norm
  state.norm.copy_(norm / limit);
  scaled.div_(limit);
  return config_.scale_front ? scaled : scaled.mul_(scale);
}

void Apollo::step(double learning_rate) {
  const bool refresh = step_.item<int64_t>() % config_.update_interval == 0;
  step_ += 1;
  const double correction = bias_correction(config_.adam, step_.item<int64_t>());
  update_each(groups_, states_, [&](const ParameterGroup& group, const std::string&, Tensor& parameter, State& state) {
    const double rate = learning_rate * group.lr_scale;
    const Tensor& gradient = parameter.grad();
    const bool projects = state.side != Projection::none;
    if (refresh && projects) refresh_projector(state, gradient);
    const Tensor seen = !projects                        ? gradient
                        : state.side == Projection::left ? state.projector.t().mm(gradient)
                                                         : gradient.mm(state.projector.t());
    const Tensor direction = state.moments.direction(seen, config_.adam);
    parameter.add_(projects ? scaled_gradient(state, gradient, seen, direction) : direction, -rate * correction);
    if (group.weight_decay > 0) parameter.mul_(1 - rate * group.weight_decay);
  });
}

void Apollo::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, states_, [&](const std::string& name, State& state) {
    if (state.side != Projection::none) {
      visit("projector/" + name, state.projector);
      visit("projector_seed/" + name, state.seed);
      visit("update_norm/" + name, state.norm);
    }
    visit("exp_avg/" + name, state.moments.first);
    visit("exp_avg_sq/" + name, state.moments.second);
  });
}

}  // namespace hone::optim
