// The inner loops of linear layers for few rows, on plain pointers: x in float32 [rows, width], y [rows, stride y_stride].
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hone::ops::cpu {

struct SmallShape {
  int64_t rows, width, count, y_stride;  // count: outputs to compute
};

void small_outputs(const float* x, const float* weight, float* y, const SmallShape& shape);
void small_outputs(const float* x, const c10::BFloat16* weight, float* y, const SmallShape& shape);
void small_outputs(const float* x, const c10::Half* weight, float* y, const SmallShape& shape);

// 8 bits: y = scale * ((codes - kInt8Zero) . x), a scale per output.
constexpr int32_t kInt8Zero = 128;
void small_outputs_int8(const float* x, const uint8_t* codes, const float* scales, float* y, const SmallShape& shape);

// 4 bits: groups of kInt4Group inputs, sixteen bytes each; byte i holds input i in its low half and input i + 16 in its high half.
// A weight is code * scale + lowest; `groups` has both for each group of each output, `x_sums` [rows, groups] the sums of x over groups.
constexpr int64_t kInt4Group = 32;
struct Int4Group {
  float scale, lowest;
};
void small_outputs_int4(const float* x, const float* x_sums, const uint8_t* codes, const Int4Group* groups, float* y, const SmallShape& shape);

}  // namespace hone::ops::cpu
