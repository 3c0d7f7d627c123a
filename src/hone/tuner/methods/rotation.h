// Orthogonal matrices made of small blocks along the diagonal, which OFT and BOFT turn a layer's input by.
#pragma once
#include "hone/device/tensor.h"

namespace hone::tuner {

// Cayley's map of skew-symmetric blocks [n, size, size]: (I - S) (I + S)^-1, orthogonal.
Tensor cayley(const Tensor& skew);
// The first `terms` terms of the same as a series, PEFT's cheaper form.
Tensor cayley_series(const Tensor& skew, int64_t terms);

// x [..., blocks * size] with each part multiplied by its block [blocks, size, size].
Tensor block_diagonal_matmul(const Tensor& x, const Tensor& blocks);

// Training: this share of the blocks, redrawn, does not turn.
Tensor multiplicative_dropout(const Tensor& blocks, double share);

}  // namespace hone::tuner
