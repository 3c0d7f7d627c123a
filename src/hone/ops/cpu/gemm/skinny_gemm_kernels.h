// The inner loops of linear layers for few rows, on plain pointers: y [rows, stride y_stride] in float32.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hone::ops::cpu {

struct SkinnyShape {
  int64_t rows, width, count, y_stride;  // count: outputs to compute
};

// x [rows, width] packed for small_outputs, in float32: rows that are computed together are interleaved, sixteen inputs of each
// (one input of each for eight_rows.h), and widths are padded to multiples of sixteen.
int64_t packed_row(int64_t width);  // floats of one row
void pack_rows(const float* x, float* packed, int64_t rows, int64_t width);
void pack_rows(const c10::BFloat16* x, float* packed, int64_t rows, int64_t width);
void pack_rows(const c10::Half* x, float* packed, int64_t rows, int64_t width);

void small_outputs(const float* packed, const float* weight, float* y, const SkinnyShape& shape);
void small_outputs(const float* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);
void small_outputs(const float* packed, const c10::Half* weight, float* y, const SkinnyShape& shape);

void add_bias(float* y, int64_t stride, const float* bias, int64_t rows, int64_t count);  // to y [rows, count]
void add_bias(float* y, int64_t stride, const c10::BFloat16* bias, int64_t rows, int64_t count);
void add_bias(float* y, int64_t stride, const c10::Half* bias, int64_t rows, int64_t count);
// Converts sums [rows, count] to a shorter dtype.
void round_outputs(const float* sums, c10::BFloat16* y, int64_t rows, int64_t count, int64_t stride);
void round_outputs(const float* sums, c10::Half* y, int64_t rows, int64_t count, int64_t stride);

}  // namespace hone::ops::cpu
