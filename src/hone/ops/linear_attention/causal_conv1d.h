// A short causal convolution of each channel with itself, within each sequence of a packed row, followed by SiLU.
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"
#include "hone/ops/linear_attention/recurrent_state.h"

namespace hone::ops {

// x [T, channels], weight [channels, 1, kernel] (Conv1d's) -> the same shape as x: position t reads x of t - kernel + 1 … t of
// its own sequence. With `states`, each segment continues its slot's last inputs, which are updated in place; without, the result
// is differentiable.
Tensor causal_conv1d_plain(const Tensor& x_tc, const Tensor& weight, const CuSeqlens& segments,
                           const StateSlots* states = nullptr);
Tensor causal_conv1d(const Tensor& x_tc, const Tensor& weight, const CuSeqlens& segments, const StateSlots* states = nullptr);

}  // namespace hone::ops
