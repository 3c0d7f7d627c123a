#include "hone/ops/linear_attention/recurrent_step.h"

#include "hone/ops/cpu/delta_step.h"

namespace hone::ops {

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
  auto own_bhkv = state.recurrent_shkv.index_select(0, slots_b);
  const auto y_bhv = gated_delta_position(input, own_bhkv);
  state.recurrent_shkv.index_copy_(0, slots_b, own_bhkv);
  return y_bhv.to(input.v_thv.scalar_type());
}

Tensor gated_delta_step(const DeltaRuleInput& input, const RecurrentState& state, const Tensor& slots_b) {
  return cpu::supports_delta_step(input.v_thv, state.recurrent_shkv)
             ? cpu::delta_step(input.q_thk, input.k_thk, input.v_thv, input.log_decay_th, input.beta_th, state.recurrent_shkv,
                               slots_b)
             : gated_delta_step_plain(input, state, slots_b);
}

}  // namespace hone::ops
