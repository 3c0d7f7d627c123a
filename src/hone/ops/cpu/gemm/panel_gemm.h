// Blocks of both operands are packed into panels that are read sequentially (panel_gemm_kernels.h), and 16-bit numbers are
// widened to float32 on the way: such a product costs the same as float32, and no upcast weight is written to memory.
#pragma once
#include <functional>

#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool has_panel_gemm();  // on Arm, and on x86 with AVX2
// Over libtorch's BLAS where both serve, because it is faster: on Arm, and for float32 on AMD's processors with AVX-512, where
// MKL uses AVX2.
bool prefers_panel_gemm(at::ScalarType type);

// [M, K] x [K, N] -> out [M, N], each float32, bfloat16 or float16 with any strides. `bias` [N] may be undefined. Sums are
// float32, in an order that depends only on K: not on the number of threads or rows.
void panel_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out);

// out = [out +] scale * mask * (a b), rounded once. `mask`: float32 like out, or undefined. Operands may have different types.
struct PanelUpdate {
  double scale = 1.0;
  Tensor mask;
  bool adds = false;
};
void panel_gemm(const Tensor& a, const Tensor& b, const PanelUpdate& update, Tensor out);

// The first one for a right operand that is stored in another form. `panels`: its `columns` columns from `column` on, at steps
// [step, step + steps) of the sum; `step` is a multiple of kPanelDepth. Called by several threads at once.
using PackColumns = std::function<void(int64_t column, int64_t columns, int64_t step, int64_t steps, float* panels)>;
void panel_gemm(const Tensor& a, const PackColumns& pack_columns, const Tensor& bias, Tensor out);

}  // namespace hone::ops::cpu
