// Weights as small integers, each group with a scale and a zero: HQQ's way, which moves the zero until few weights are far off,
// and quanto's, which takes the extremes as they are.
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
// What quanto takes for a layer of so many inputs: all of a row in 8 bits, else 128 or what divides it.
int64_t quanto_group(int bits, int64_t inputs);

std::vector<int64_t> grouped_shape(const GroupwiseConfig& how);

}  // namespace hone::ops
