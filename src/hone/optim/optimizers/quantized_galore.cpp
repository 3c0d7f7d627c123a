#include "hone/optim/optimizers/quantized_galore.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"

namespace hone::optim {

QuantizedProjector QuantizedProjector::of(const Tensor& matrix, int64_t bits, int64_t group) {
  auto rows = matrix.numel() % group == 0 ? matrix.reshape({-1, group}) : matrix;  // else one group per row
  const double steps = static_cast<double>((int64_t{1} << bits) - 1);
  auto low = rows.amin(1, /*keepdim=*/true), high = rows.amax(1, /*keepdim=*/true);
  auto scales = (high - low).clamp_min(1e-5) / steps;
  auto zeros = (-at::round(low / scales)).clamp(0, steps);
  return {at::clamp(at::round(rows / scales) + zeros, 0, steps).to(at::kByte), scales, zeros};
}

Tensor QuantizedProjector::values(at::IntArrayRef shape) const {
  return (scales * (codes.to(scales.scalar_type()) - zeros)).reshape(shape);
}

QuantizedGalore::QuantizedGalore(std::vector<ParameterGroup> groups, const QuantizedGaloreConfig& config)
    : Optimizer(std::move(groups)), config_(config) {
  if (config_.galore.projection != "std")
    throw UserError(ExitCode::usage, fmt::format("Q-GaLore with the projection \"{}\"", config_.galore.projection),
                    "Q-GaLore has `galore_proj_type` std alone");
  if (config_.bits > 8)
    throw UserError(ExitCode::usage, fmt::format("`galore_proj_bits` is {}", config_.bits), "expected 1 to 8");
  bool any = false;
  for (const auto& group : groups_) {
    auto& states = states_.emplace_back();
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      states.push_back(initial_state(group.names[i], group.parameters[i]));
      any |= states.back().side != Projection::none;
    }
  }
  if (!any)
    throw UserError(ExitCode::usage,
                    fmt::format("Q-GaLore: no trained matrix matches {}", fmt::join(config_.galore.targets, ", ")),
                    "GaLore projects full weights; use it with full or freeze tuning, not with LoRA");
}

QuantizedGalore::State QuantizedGalore::initial_state(const std::string& name, const Tensor& parameter) const {
  State state;
  auto shape = parameter.sizes().vec();
  const auto options = parameter.options().requires_grad(false).dtype(at::kFloat);
  if (is_projected(config_.galore.targets, name, parameter)) {
    state.side = projection_side("std", parameter);
    const bool right = state.side == Projection::right;
    const int64_t rank = std::min({config_.galore.rank, shape[0], shape[1]});
    state.projector = right ? at::zeros({rank, shape[1]}, options) : at::zeros({shape[0], rank}, options);
    shape[right ? 1 : 0] = rank;
    if (config_.quantize_projector) state.coarse = QuantizedProjector::of(state.projector, config_.bits, config_.group);
    state.first_vector = at::zeros({right ? state.projector.size(1) : state.projector.size(0)}, options);
    state.cosine_similarities = at::zeros({config_.queue_size}, at::kDouble);
    state.counts = at::tensor({config_.galore.update_interval, int64_t{0}}, at::kLong);
  }
  const auto like = at::zeros(shape, options);
  state.first = BlockwiseQuantized(like, true);
  state.second = BlockwiseQuantized(like, false);
  return state;
}

void QuantizedGalore::refresh(State& state, const Tensor& gradient) const {
  auto [u, s, vh] = at::linalg_svd(gradient, /*full_matrices=*/false);
  const bool right = state.side == Projection::right;
  auto found = right ? vh.slice(0, 0, state.projector.size(0)) : u.slice(1, 0, state.projector.size(1));
  auto leading = (right ? found.select(0, 0) : found.select(1, 0)).clone();
  auto* counts = state.counts.mutable_data_ptr<int64_t>();
  if (counts[1] > 0) {
    state.cosine_similarities.copy_(at::roll(state.cosine_similarities, -1));
    state.cosine_similarities[config_.queue_size - 1].fill_(
        at::cosine_similarity(state.first_vector, leading, /*dim=*/0).item<double>());
    const bool full = counts[1] >= config_.queue_size;
    if (full && state.cosine_similarities.mean().item<double>() >= config_.cos_threshold) counts[0] *= config_.gamma_proj;
  }
  ++counts[1];
  state.first_vector.copy_(leading);
  if (config_.quantize_projector)
    state.coarse = QuantizedProjector::of(found.contiguous(), config_.bits, config_.group);
  else
    state.projector.copy_(found);
}

Tensor QuantizedGalore::projector(const State& state) const {
  return config_.quantize_projector ? state.coarse.values(state.projector.sizes()) : state.projector;
}

Tensor QuantizedGalore::direction(State& state, const Tensor& gradient, int64_t step) const {
  const auto& adam = config_.galore.adam;
  AdamMoments moments{state.first.dequantize(), state.second.dequantize()};
  auto update = moments.direction(gradient, adam) * bias_correction(adam, step);
  state.first.quantize(moments.first);
  state.second.quantize(moments.second);
  return update;
}

void QuantizedGalore::step(double learning_rate) {
  const int64_t before = step_.item<int64_t>();
  step_ += 1;
  update_each(groups_, states_, [&](const ParameterGroup& group, const std::string&, Tensor& parameter, State& state) {
    const double rate = learning_rate * group.lr_scale;
    auto gradient = parameter.grad().to(at::kFloat);
    const bool projected = state.side != Projection::none, right = state.side == Projection::right;
    if (projected && before % state.counts.const_data_ptr<int64_t>()[0] == 0) refresh(state, gradient);
    const auto basis = projected ? projector(state) : Tensor();
    if (projected) gradient = right ? gradient.mm(basis.t()) : basis.t().mm(gradient);
    auto update = direction(state, gradient, before + 1);
    if (projected) update = (right ? update.mm(basis) : basis.mm(update)).mul_(config_.galore.scale);
    parameter.add_(update.to(parameter.scalar_type()), -rate);
    if (group.weight_decay > 0) parameter.mul_(1 - rate * group.weight_decay);
  });
}

void QuantizedGalore::visit_state(const StateVisitor& visit) {
  visit("step", step_);
  visit_each(groups_, states_, [&](const std::string& name, State& state) {
    if (state.side != Projection::none) {
      if (config_.quantize_projector) {
        visit("projector_codes/" + name, state.coarse.codes);
        visit("projector_scales/" + name, state.coarse.scales);
        visit("projector_zeros/" + name, state.coarse.zeros);
      } else {
        visit("projector/" + name, state.projector);
      }
      visit("first_vector/" + name, state.first_vector);
      visit("likeness/" + name, state.cosine_similarities);
      visit("projector_counts/" + name, state.counts);
    }
    state.first.visit(visit, "exp_avg/" + name);
    state.second.visit(visit, "exp_avg_sq/" + name);
  });
}

}  // namespace hone::optim
