// A decoder block for one or two tokens on a GPU, bound by reading its weights: norms, sums and SwiGLU are part of the products'
// kernels (ops/cuda/thin_linear.h), so that a block takes five launches.
#pragma once
#include "hone/model/decoder.h"

namespace hone::model {

bool is_thin(const Block& block, const Tensor& x_th, const ForwardContext& context);
Tensor thin_block_forward(const Block& block, const Tensor& x_th, const ForwardContext& context);  // as block_forward

}  // namespace hone::model
