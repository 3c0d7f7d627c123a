// Dropout masks: one draw from the generator seeds a hash of each element's index, so that lanes and threads are independent.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// Fills a float32 tensor with 1 / kept where an element stays and 0 where it is dropped.
void fill_dropout_mask(Tensor& mask, double kept);

// x * mask in float32.
Tensor masked(const Tensor& x, const Tensor& mask);

}  // namespace hone::ops::cpu
