// A short causal convolution of each channel with itself, within each sequence of a packed row.
#pragma once
#include "hone/ops/linear_attention/linear_attention_metadata.h"
#include "hone/ops/linear_attention/recurrent_state.h"

namespace hone::ops {

// x [T, channels], weight [channels, 1, kernel] (Conv1d's) -> the shape and type of x, summed in float32: position t reads x of
// t - kernel + 1 … t of its own sequence. With `states`, for inference, each segment continues its slot's last inputs, which are
// updated in place.
Tensor causal_conv1d_plain(const Tensor& x_tc, const Tensor& weight, const CuSeqlens& segments);
Tensor causal_conv1d(const Tensor& x_tc, const Tensor& weight, const LinearAttentionMetadata& metadata,
                     const StateSlots* states = nullptr);

// SiLU of it, one kernel in training on a GPU.
Tensor causal_conv1d_silu(const Tensor& x_tc, const Tensor& weight, const LinearAttentionMetadata& metadata,
                          const StateSlots* states = nullptr);

}  // namespace hone::ops
