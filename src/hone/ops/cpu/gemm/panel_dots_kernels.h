// The inner loops of panel_dots.h: like panel_gemm_kernels.h, with words of four bytes instead of floats.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace hone::ops::cpu {

// Words of a group of inputs in a panel. 8 bits: 64 inputs as in int16_dot_gemm.h, and as many weights. 4 bits: 32 inputs or
// weights of one byte each, even ones first.
constexpr int64_t kInt8RowWords = 32, kInt4Words = 8;
#if defined(__aarch64__)
constexpr int64_t kInt8ColumnWords = 16;  // signed bytes
#else
constexpr int64_t kInt8ColumnWords = 32;  // 16-bit numbers
#endif
constexpr int64_t kInt8CodeWords = 16, kInt4CodeWords = 4;  // of a group of weights in memory

// What is packed from memory: up to a panel of lines, `stride` apart, from the position `first` of each on. Lines are rows of
// inputs, or consecutive outputs as this processor's weights are stored: on Arm in interleaved groups of four
// (interleaved_layout.h).
template <class T>
struct PanelLines {
  const T* from;
  int64_t stride, lines, first;
};
using WordLines = PanelLines<int32_t>;
using ScaleLines = PanelLines<c10::BFloat16>;

// Each instruction set has its own order of words within a panel; on one processor, sizes and results of its sets are
// bit-identical.
struct PanelDotKernels {
  void (*pack_int8_rows)(const WordLines& rows, int64_t groups, int32_t* to);
  void (*pack_int4_rows)(const WordLines& rows, int64_t groups, int32_t* to);  // groups: whole blocks of 128 inputs

  // Codes as signed bytes or 16-bit numbers; those of 4 bits as unsigned bytes.
  void (*pack_int8_columns)(const WordLines& codes, int64_t groups, int32_t* to);
  void (*pack_int4_columns)(const WordLines& codes, int64_t groups, int32_t* to);
  void (*pack_int4_scales)(const ScaleLines& scales, int64_t groups, float* to);  // first: a group; to: [groups, 2, columns]

  // Adds the product of two panels to sums [kPanelRows, kPanelColumns]. Scales and sums of inputs are [groups, kPanelRows],
  // scales and minimums of weights [groups, 2, kPanelColumns].
  void (*multiply_int8)(const int32_t* rows, const float* row_scales, const int32_t* columns, int64_t groups, float* sums,
                        int64_t stride);
  void (*multiply_int4)(const int32_t* rows, const float* row_scales, const float* row_sums, const int32_t* columns,
                        const float* column_scales, int64_t groups, float* sums, int64_t stride);
};

extern const PanelDotKernels kAvx2Panels, kVnniPanels;  // x86
extern const PanelDotKernels kSdotPanels;               // Arm: dot products of four bytes
extern const PanelDotKernels kSmmlaPanels;              // Arm: products of matrices of 2 x 8 bytes (I8MM)
const PanelDotKernels& panel_dot_kernels();             // the fastest that this processor has

}  // namespace hone::ops::cpu
