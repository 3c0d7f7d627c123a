// The inner loops of panel_gemm.h, on plain pointers. A panel holds a few rows of the left operand, or columns of the right one,
// in float32: for each step of the sum its numbers are adjacent. Missing lines are zero.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hone::ops::cpu {

#if defined(__aarch64__)
constexpr int64_t kPanelRows = 8, kPanelColumns = 12;  // 24 sums of four in registers, 98 % of what a Neoverse-N1 can multiply
#else
constexpr int64_t kPanelRows = 12, kPanelColumns = 32;  // 24 sums of sixteen in AVX-512's registers
#endif
constexpr int64_t kPanelDepth = 512;  // steps of a sum at a time: a panel of each factor stays in the first-level cache

// The memory of an operand: a line is a row of the left operand, a column of the right one.
struct PanelSource {
  int64_t line_stride, depth_stride;
  int64_t lines, depth;
};

// The types that operands and products come in.
#define HONE_PANEL_TYPES(DO) DO(float) DO(c10::BFloat16) DO(c10::Half)
#define HONE_DECLARE(T)                                                         \
  void pack_row_panels(const T* from, const PanelSource& source, float* to);    \
  void pack_column_panels(const T* from, const PanelSource& source, float* to); \
  void store_sums(const float* sums, const float* bias, T* to, int64_t count);
HONE_PANEL_TYPES(HONE_DECLARE)
#undef HONE_DECLARE

// sums [kPanelRows, kPanelColumns], `stride` floats apart: set to, or increased by, the product of two panels.
using MultiplyPanels = void (*)(const float* row_panel, const float* column_panel, int64_t depth, float* sums, int64_t stride,
                                bool increase);
// As this processor does it fastest. Only the first `columns` columns of the sums need to be computed.
MultiplyPanels multiply_panels_here(int64_t columns = kPanelColumns);
// With NEON and with SVE.
void multiply_panels(const float* row_panel, const float* column_panel, int64_t depth, float* sums, int64_t stride,
                     bool increase);
void multiply_panels_sve256(const float* row_panel, const float* column_panel, int64_t depth, float* sums, int64_t stride,
                            bool increase);

// The same in bfloat16, for processors with BFMMLA: four steps of a sum are adjacent, line by line. Depths of panels are
// multiples of four, zero-padded.
constexpr int64_t kBf16Steps = 4;
void pack_row_panels(const c10::BFloat16* from, const PanelSource& source, c10::BFloat16* to);
void pack_column_panels(const c10::BFloat16* from, const PanelSource& source, c10::BFloat16* to);
void multiply_bf16_panels(const c10::BFloat16* row_panel, const c10::BFloat16* column_panel, int64_t depth, float* sums,
                          int64_t stride, bool increase);

}  // namespace hone::ops::cpu
