// The inner loops of linear layers whose weights are rounded to 8 or 4 bits, on plain pointers. A code becomes a float by a shift and a
// mask: it is put behind the exponent of 1, which makes it 1 + code / 2^bits, and the 1 is taken off again with sums of x.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops::cpu {

// Sixteen words stand side by side; their fields of 8 or 4 bits, lowest first, hold sixteen inputs each. Rows are padded to whole blocks.
constexpr int64_t kPackedBlock = 128;
constexpr int64_t kPackedWords = 16;
// 4 bits: a weight is code * scale + lowest, and both are shared by a group of inputs. Sixteen scales, then sixteen lowest values lie together.
constexpr int64_t kPackedGroup = 32;
constexpr int64_t kGroupSpan = 16;
// 8 bits: a weight is (code - kInt8Zero) * scale, with one scale for each output.
constexpr int32_t kInt8Zero = 128;

inline int64_t padded_width(int64_t width) { return (width + kPackedBlock - 1) / kPackedBlock * kPackedBlock; }
inline int64_t padded_groups(int64_t width) { return (width / kPackedGroup + kGroupSpan - 1) / kGroupSpan * kGroupSpan; }

// Sums of x [rows, width] over groups: [rows, padded_groups(width)]. All widths here are padded.
void group_sums(const float* x, float* sums, int64_t rows, int64_t width);
void packed_outputs_int8(const float* x, const float* sums, const int32_t* codes, const float* scales, float* y, const SmallShape& shape);
void packed_outputs_int4(const float* x, const float* sums, const int32_t* codes, const c10::BFloat16* scales, float* y, const SmallShape& shape);

// Rows of the weight in float32 [rows, width].
void unpack_int8(const int32_t* codes, const float* scales, float* weight, int64_t rows, int64_t width);
void unpack_int4(const int32_t* codes, const c10::BFloat16* scales, float* weight, int64_t rows, int64_t width);

}  // namespace hone::ops::cpu
