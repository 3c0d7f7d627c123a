// One token of each of several sequences in a gated delta net (ops/linear_attention/recurrent_step.h).
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool supports_conv_step(const Tensor& x_bc, const Tensor& weight, const Tensor& state_sck);
Tensor conv_step(const Tensor& x_bc, const Tensor& weight, const Tensor& state_sck, const Tensor& slots_b);

bool supports_delta_step(const Tensor& v_bhv, const Tensor& state_shkv);
Tensor delta_step(const Tensor& q_bhk, const Tensor& k_bhk, const Tensor& v_bhv, const Tensor& log_decay_bh,
                  const Tensor& beta_bh, const Tensor& state_shkv, const Tensor& slots_b);

}  // namespace hone::ops::cpu
