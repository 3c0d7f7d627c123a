// Weights as small integers with a scale and a zero point per group: HQQ, which optimizes the zero point against outliers, and
// quanto, which uses minimum and maximum.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

enum class RangeMethod { half_quadratic, min_max };

struct GroupwiseConfig {
  RangeMethod solver = RangeMethod::half_quadratic;
  int bits = 4;        // 1 to 8
  int axis = 1;        // 1: a group is consecutive weights; 0: weights that are a row of groups apart
  int64_t group = 64;  // of all weights together a divisor; of extremes, of the inputs
};

// weight = (codes - zeros) * scales, shaped by groups: [-1, group] or [group, -1].
struct GroupwiseQuantized {
  Tensor codes;          // uint8, one for each weight
  Tensor scales, zeros;  // float32
};

GroupwiseQuantized grouped_codes(const Tensor& weight, const GroupwiseConfig& how);
// quanto's group size for this many inputs: the full row for 8 bits, else 128 or a divisor.
int64_t quanto_group(int bits, int64_t inputs);

std::vector<int64_t> grouped_shape(const GroupwiseConfig& how);

}  // namespace hone::ops
