// The inner loops of panel_dots.h: like panel_gemm_kernels.h, with words of four bytes instead of floats. Arm only.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace hone::ops::cpu {

// Words of a group of inputs: for 8 bits, 64 inputs of two bytes each, high bytes first; for 4 bits, 32 of one byte each, even
// ones first. Weights have one byte per input.
constexpr int64_t kInt8RowWords = 32, kInt8ColumnWords = 16, kInt4Words = 8;

// Up to twelve consecutive outputs, in interleaved groups of four (interleaved_layout.h), from word `first` of each on.
struct ColumnCodes {
  const int32_t* words;
  int64_t stride, lines, first;  // stride: words of an output
};

// Each instruction set has its own order of words within a panel; sizes and results are bit-identical.
struct PanelDotKernels {
  // Interleaves words of up to eight rows, `stride` words apart. `words` is a multiple of four.
  void (*pack_row_words)(const int32_t* from, int64_t stride, int64_t lines, int64_t words, int32_t* to);

  // Codes as signed bytes, interleaved.
  void (*pack_int8_columns)(const ColumnCodes& codes, int64_t groups, int32_t* to);
  void (*pack_int4_columns)(const ColumnCodes& codes, int64_t groups, int32_t* to);

  // Adds the product of two panels to sums [8, 12]. Scales and sums of inputs are [groups, 8], scales and minimums of weights
  // [groups, 2, 12].
  void (*multiply_int8)(const int32_t* rows, const float* row_scales, const int32_t* columns, int64_t groups, float* sums,
                        int64_t stride);
  void (*multiply_int4)(const int32_t* rows, const float* row_scales, const float* row_sums, const int32_t* columns,
                        const float* column_scales, int64_t groups, float* sums, int64_t stride);
};

extern const PanelDotKernels kSdotPanels;    // dot products of four bytes
extern const PanelDotKernels kSmmlaPanels;   // products of matrices of 2 x 8 bytes (I8MM)
const PanelDotKernels& panel_dot_kernels();  // the fastest that this processor has

}  // namespace hone::ops::cpu
