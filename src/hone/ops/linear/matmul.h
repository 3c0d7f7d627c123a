// The three products of a linear layer on 2-D tensors. On a processor without instructions for the weights' 16-bit dtype they are
// widened to float32 block by block, since libtorch's own path is two orders of magnitude slower there.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

Tensor matmul_nt(const Tensor& x, const Tensor& weight, const Tensor& bias = {});  // x W^T + b: [T, in], [out, in] -> [T, out]
Tensor matmul_nn(const Tensor& dy, const Tensor& weight);                          // dy W: [T, out], [out, in] -> [T, in]
Tensor matmul_tn(const Tensor& dy, const Tensor& x);                               // dy^T x: [T, out], [T, in] -> [out, in]
void add_matmul_tn_(Tensor& sum, const Tensor& dy, const Tensor& x);               // sum += dy^T x, all float32

// Up to this many rows, a product without gradients gives each row the same result, however many others there are.
constexpr int64_t kBatchInvariantRows = 32;

// Whether matmul_* widens tensors like this one.
bool is_upcast(const Tensor& weight);
// Forces (or forbids) upcasting in later calls, whatever the processor supports: tests run both paths on one machine.
void force_upcast(std::optional<bool> widen);

}  // namespace hone::ops
