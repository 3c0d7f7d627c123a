// Rotary position embedding in Hugging Face's layout: element i of a head's first half rotates with element i of the second.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

// Cosines and sines of every position's angles, float32 [T, head_dim / 2], times `magnitude` (YaRN's attention factor).
struct RopeTable {
  Tensor cos, sin;
};
// Positions [T], or [3, T] (M-RoPE: time, height, width); frequency i then uses row axes_h[i] of them (int64 [head_dim / 2]).
RopeTable rope_table(const Tensor& positions_t, const Tensor& inverse_frequencies, double magnitude = 1.0,
                     const Tensor& axes_h = {});

// x [T, heads * head_dim] -> the same shape.
Tensor rope_plain(const Tensor& x, const RopeTable& table);
Tensor rope(const Tensor& x, const RopeTable& table);
// The same with heads of head_dim, of which the first 2 * [table's width] elements rotate and the others are unchanged.
Tensor partial_rope(const Tensor& x, const RopeTable& table, int64_t head_dim);
// Whether rows like these can be rotated in place, as part of joint_linear.h.
bool rotates_in_place(const Tensor& x, const RopeTable& table);

}  // namespace hone::ops
