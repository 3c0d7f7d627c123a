// A decoder block for one or two tokens on a GPU, which costs what reading its weights costs: norms, sums and SwiGLU are part of
// the products' kernels (ops/cuda/thin_linear.h), so that five launches read weights and little is between them.
#pragma once
#include "hone/model/decoder.h"

namespace hone::model {

bool is_thin(const Block& block, const Tensor& x_th, const ForwardContext& pass);
Tensor thin_block_forward(const Block& block, const Tensor& x_th, const ForwardContext& pass);  // as block_forward

}  // namespace hone::model
