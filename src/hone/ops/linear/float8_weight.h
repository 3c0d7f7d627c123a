// A frozen weight in float8, for products that are twice as fast on supporting GPUs. The weight is rounded once; the other
// operand is rounded row by row in every product. Rows and columns have separate scales, and sums are float32.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

struct Float8Weight {
  Tensor by_outputs, output_scales;  // e4m3 [out, in], float32 [1, out]: of products forward
  Tensor by_inputs, input_scales;    // e4m3 [in, out], float32 [1, in]: of products backward
  bool defined() const { return by_outputs.defined(); }
  TensorList tensors() const { return {by_outputs, output_scales, by_inputs, input_scales}; }
};

// Whether a device supports float8 products; checked once per device.
bool has_float8_products(at::Device device);

// Whether such a weight with this many outputs is supported: bfloat16, sizes that are multiples of 16, on such a device.
bool supports_float8(const Tensor& like, int64_t outputs);
Float8Weight float8_weight(const Tensor& weight);
Float8Weight float8_weight_forward(const Tensor& weight);  // of products forward alone, for inference
// The weight of some outputs, as a view.
Float8Weight float8_slice(const Float8Weight& whole, int64_t begin, int64_t outputs);

// x W^T + b and dy W, with the float8 weight if it exists and the rows can be rounded, else with the plain weight.
Tensor base_product(const Tensor& x, const Tensor& weight, const Float8Weight& float8, const Tensor& bias);
Tensor base_gradient(const Tensor& dy, const Tensor& weight, const Float8Weight& float8);

}  // namespace hone::ops
