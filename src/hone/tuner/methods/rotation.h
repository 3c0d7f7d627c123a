// Block-diagonal orthogonal matrices, by which OFT and BOFT rotate a layer's input.
#pragma once
#include "hone/device/tensor.h"

namespace hone::tuner {

// Cayley's map of skew-symmetric blocks [n, size, size]: (I - S) (I + S)^-1, orthogonal.
Tensor cayley(const Tensor& skew);
// The first `terms` terms of the same as a series, PEFT's cheaper form.
Tensor cayley_series(const Tensor& skew, int64_t terms);

// x [..., blocks * size] with each part multiplied by its block [blocks, size, size].
Tensor block_diagonal_matmul(const Tensor& x, const Tensor& blocks);

// Training: this fraction of the blocks, redrawn, does not rotate.
Tensor multiplicative_dropout(const Tensor& blocks, double share);

}  // namespace hone::tuner
