#include "hone/ops/linear_attention/recurrent_step.h"

#include <cmath>

#include "hone/ops/cpu/delta_step.h"

namespace hone::ops {
namespace {

Tensor l2_normalized(const Tensor& x_bhk) {
  const auto x = x_bhk.to(at::kFloat);
  return x * at::rsqrt((x * x).sum(-1, /*keepdim=*/true) + 1e-6);
}

}  // namespace

Tensor causal_conv1d_step_plain(const Tensor& x_bc, const Tensor& weight, const RecurrentState& state, const Tensor& slots_b) {
  auto states = state.conv_sck;
  const auto inputs_bck = at::cat({states.index_select(0, slots_b), x_bc.unsqueeze(-1)}, -1);
  states.index_copy_(0, slots_b, inputs_bck.narrow(-1, 1, states.size(-1)));
  return (inputs_bck.to(at::kFloat) * weight.squeeze(1).to(at::kFloat)).sum(-1).to(x_bc.scalar_type());
}

Tensor causal_conv1d_step(const Tensor& x_bc, const Tensor& weight, const RecurrentState& state, const Tensor& slots_b) {
  return cpu::supports_conv_step(x_bc, weight, state.conv_sck) ? cpu::conv_step(x_bc, weight, state.conv_sck, slots_b)
                                                               : causal_conv1d_step_plain(x_bc, weight, state, slots_b);
}

Tensor gated_delta_step_plain(const DeltaRuleInput& input, const RecurrentState& state, const Tensor& slots_b) {
  auto states = state.recurrent_shkv;
  const int64_t groups = states.size(1) / input.k_thk.size(1);
  const double scale = 1 / std::sqrt(static_cast<double>(states.size(2)));
  const auto q_bhk = l2_normalized(input.q_thk).mul_(scale).repeat_interleave(groups, 1).unsqueeze(-2),
             k_bhk = l2_normalized(input.k_thk).repeat_interleave(groups, 1).unsqueeze(-2);
  const auto decay_bh = at::exp(input.log_decay_th.to(at::kFloat)).unsqueeze(-1).unsqueeze(-1),
             beta_bh = input.beta_th.to(at::kFloat).unsqueeze(-1).unsqueeze(-1);
  auto state_bhkv = states.index_select(0, slots_b) * decay_bh;
  const auto delta_bhv = (input.v_thv.to(at::kFloat).unsqueeze(-2) - at::matmul(k_bhk, state_bhkv)) * beta_bh;
  state_bhkv += k_bhk.transpose(-1, -2) * delta_bhv;
  states.index_copy_(0, slots_b, state_bhkv);
  return at::matmul(q_bhk, state_bhkv).squeeze(-2).to(input.v_thv.scalar_type());
}

Tensor gated_delta_step(const DeltaRuleInput& input, const RecurrentState& state, const Tensor& slots_b) {
  return cpu::supports_delta_step(input.v_thv, state.recurrent_shkv)
             ? cpu::delta_step(input.q_thk, input.k_thk, input.v_thv, input.log_decay_th, input.beta_th, state.recurrent_shkv,
                               slots_b)
             : gated_delta_step_plain(input, state, slots_b);
}

}  // namespace hone::ops
