// The operators around the gated delta rule on NVIDIA GPUs, and a decode step that includes the rule, for heads of 128 and
// convolutions of four positions. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// SiLU of the causal convolution of each channel: x [T, channels], weight [channels, 1, 4], positions int64 [T] in each row's
// sequence (undefined: the rows are one).
bool supports_conv_silu(const Tensor& x, const Tensor& weight);
Tensor conv_silu(const Tensor& x, const Tensor& weight, const Tensor& positions);
struct ConvGradients {
  Tensor x, weight;  // the weight's only if it trains
};
ConvGradients conv_silu_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& positions, bool trains);

// RMSNorm of each head times SiLU of its gate: x and z [T, heads, 128], weight [128].
bool supports_gated_norm(const Tensor& x, const Tensor& z, const Tensor& weight);
Tensor gated_norm(const Tensor& x, const Tensor& z, const Tensor& weight, double eps);
struct GatedNormGradients {
  Tensor x, z, weight;
};
GatedNormGradients gated_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& z, const Tensor& weight, double eps,
                                       bool trains);

// One token of each of several sequences (ops/linear_attention/delta_net_mix.h): one kernel. A row whose slot is -1 pads the
// batch: it gives zeros and changes no slot.
struct DeltaStep {
  Tensor qkv_bc, z_bhv, b_bh, a_bh;          // rows of projections
  Tensor conv, dt_bias, a_log, norm;         // weights
  Tensor conv_sck, recurrent_shkv, slots_b;  // states, updated in place
  int64_t key_heads = 0;
  double eps = 0;
};
struct DeltaStepShape {
  int64_t key_heads, value_heads, key_dim, value_dim, conv_kernel;
};
bool supports_delta_steps(const Tensor& like, const DeltaStepShape& shape);  // of rows like that, in a model of such layers
bool supports_delta_step(const DeltaStep& step);
Tensor delta_step(const DeltaStep& step);

}  // namespace hone::ops::cuda
