// Weights of 8 and 4 bits on Arm processors with dot products of bytes. Whole fours of outputs are interleaved: their words stand
// side by side, so that one register holds a word of each and its dot products are the sums of four outputs. So do, group by
// group, their four scales and four lowest values. Outputs behind the last whole four stay one by one, as packed_layout.h has
// them.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

constexpr int64_t kInterleavedOutputs = 4;

bool interleaves_outputs();                 // whether this processor's kernels read weights so
bool can_be_followed(const Tensor& codes);  // by another layer's outputs in the same memory

Tensor interleave_codes(const Tensor& codes);  // [out, words], the shape stays
Tensor separate_codes(const Tensor& interleaved);
Tensor interleave_scales(const Tensor& scales);  // [out, spans, 2, groups of a span], the shape stays
Tensor separate_scales(const Tensor& interleaved);

}  // namespace hone::ops::cpu
