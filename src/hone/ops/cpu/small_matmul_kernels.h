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

}  // namespace hone::ops::cpu
