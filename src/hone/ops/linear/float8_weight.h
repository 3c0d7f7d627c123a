// A frozen weight as 8-bit floats, for products that are twice as fast on a GPU that has them. It is rounded once; what it is
// multiplied by is rounded row by row each time. Rows and columns have scales of their own, and sums are float32.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

struct Float8Weight {
  Tensor by_outputs, output_scales;  // e4m3 [out, in], float32 [1, out]: of products forward
  Tensor by_inputs, input_scales;    // e4m3 [in, out], float32 [1, in]: of products backward
  bool defined() const { return by_outputs.defined(); }
  TensorList tensors() const { return {by_outputs, output_scales, by_inputs, input_scales}; }
};

// Asked once a device: whether it multiplies 8-bit floats.
bool has_float8_products(at::Device device);

// Whether a weight like this one, of so many outputs, can be had so: bfloat16, sizes that are multiples of 16, on such a device.
bool serves_float8(const Tensor& like, int64_t outputs);
Float8Weight float8_weight(const Tensor& weight);
Float8Weight float8_weight_forward(const Tensor& weight);  // of products forward alone, for inference
// That of some outputs, in the memory of the whole.
Float8Weight float8_slice(const Float8Weight& whole, int64_t begin, int64_t outputs);

// x W^T + b and dy W, by the weight's 8-bit floats where it has them and the rows can be rounded, or by itself.
Tensor base_product(const Tensor& x, const Tensor& weight, const Float8Weight& float8, const Tensor& bias);
Tensor base_gradient(const Tensor& dy, const Tensor& weight, const Float8Weight& float8);

}  // namespace hone::ops
