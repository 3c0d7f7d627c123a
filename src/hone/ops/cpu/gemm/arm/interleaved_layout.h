// 8-bit and 4-bit weights on Arm processors with int8 dot products. Groups of four outputs are
// interleaved: their words are adjacent, so that one register holds a word of each and its dot
// products are the sums of four outputs. Their scales and minimums are interleaved too, group by group. Outputs after the last
// full four are stored separately, as in packed_layout.h.
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
