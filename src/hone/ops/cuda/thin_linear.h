// Linear layers with very few rows on NVIDIA GPUs, bound by reading their weights: the operators before and after such a product
// in a decoder block are fused into its kernel. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

struct ThinFusion {
  Tensor norm = {};  // defined: the rows are normed first (RMSNorm with this weight)
  double eps = 0;
  bool gated = false;  // the weight is gate, then up, and the output silu(gate) * up
  Tensor added = {};   // defined: is added to the output
};

bool supports_thin(const Tensor& x, const Tensor& weight);
Tensor thin_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const ThinFusion& with = {});

}  // namespace hone::ops::cuda
