// Quantizes a weight to integers with a scale and a zero point per group of adjacent inputs of an output.
#pragma once
#include "hone/device/tensor.h"

namespace hone::tuner {

struct GroupQuantConfig {
  int bits = 4;
  int64_t group = 128;     // inputs that share a scale; -1: all of an output
  bool symmetric = false;  // the zero is in the middle

  int64_t inputs_of_group(int64_t inputs) const { return group > 0 ? group : inputs; }
};

struct QuantizedWeight {
  Tensor codes;          // int32 [out, in], 0 … 2^bits - 1
  Tensor scales, zeros;  // float32 [out, groups]; zeros are whole

  Tensor restored() const;  // float32 [out, in]
  QuantizedWeight on_host() const { return {codes.cpu(), scales.cpu(), zeros.cpu()}; }
};

struct Grid {
  Tensor scales, zeros;  // [...] of what was looked at
};
// The grid that spans the minimum and the maximum of the last dimension, each times `reach`. Scales are rounded to float16.
Grid min_max_qparams(const Tensor& values, const GroupQuantConfig& config, double reach = 1);
// The nearest integers of the grid; scales and zeros broadcast.
Tensor quantize_values(const Tensor& values, const Tensor& scales, const Tensor& zeros, int bits);

// Rounds each value to the nearest: the baseline of the other methods.
QuantizedWeight round_to_nearest(const Tensor& weight, const GroupQuantConfig& config);

}  // namespace hone::tuner
