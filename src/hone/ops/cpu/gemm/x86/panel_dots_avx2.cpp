// panel_dots_kernels.h with AVX2: sums of four rows and two registers of columns at a time.
#if defined(__x86_64__)

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/gemm/x86/avx2.h"
#include "hone/ops/cpu/gemm/x86/panel_dots_packing.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kSumRows = 4, kSumColumns = 2 * kAvx2Lanes;
static_assert(kPanelRows % kSumRows == 0 && kPanelColumns % kSumColumns == 0);

struct DotSums {
  __m256i of[kSumRows][2];
};

// Adds add(columns, row) for each word of a group.
template <int64_t kWords, class Add>
HONE_AVX2 HONE_INLINE void add_group_avx2(DotSums& dots, const int32_t* x, const int32_t* w, Add add) {
  for (int64_t word = 0; word < kWords; ++word, x += kPanelRows, w += kPanelColumns) {
    const __m256i a = load_integers(w), b = load_integers(w + kAvx2Lanes);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kSumRows; ++r) {
      const __m256i row = _mm256_set1_epi32(x[r]);
      dots.of[r][0] = add(dots.of[r][0], a, row), dots.of[r][1] = add(dots.of[r][1], b, row);
    }
  }
}

HONE_AVX2 HONE_INLINE void increase(float* sums, __m256 values, __m256 factor) {
  _mm256_storeu_ps(sums, _mm256_fmadd_ps(values, factor, _mm256_loadu_ps(sums)));
}

HONE_AVX2 HONE_INLINE void multiply_int8_part(const int32_t* x, const float* row_scales, const int32_t* w, int64_t groups,
                                              float* sums, int64_t stride) {
  for (int64_t g = 0; g < groups;
       ++g, x += kInt8RowWords * kPanelRows, w += kInt8ColumnWords * kPanelColumns, row_scales += kPanelRows) {
    DotSums dots = {};
    add_group_avx2<kInt8RowWords>(
        dots, x, w, [](__m256i sum, __m256i columns, __m256i row) HONE_AVX2 __attribute__((always_inline)) {
          return _mm256_add_epi32(sum, _mm256_madd_epi16(columns, row));
        });
#pragma GCC unroll 4
    for (int64_t r = 0; r < kSumRows; ++r)
#pragma GCC unroll 2
      for (int64_t c = 0; c < 2; ++c)
        increase(sums + r * stride + c * kAvx2Lanes, _mm256_cvtepi32_ps(dots.of[r][c]), _mm256_set1_ps(row_scales[r]));
  }
}

// The sums of a group's pairs fit into 16 bits: kInt4Words * 2 * 15 * 127 = 30480.
HONE_AVX2 HONE_INLINE void multiply_int4_part(const int32_t* x, const float* row_scales, const float* row_sums, const int32_t* w,
                                              const float* column_scales, int64_t groups, float* sums, int64_t stride) {
  for (int64_t g = 0; g < groups; ++g, x += kInt4Words * kPanelRows, w += kInt4Words * kPanelColumns, row_scales += kPanelRows,
               row_sums += kPanelRows, column_scales += 2 * kPanelColumns) {
    DotSums dots = {};
    add_group_avx2<kInt4Words>(
        dots, x, w, [](__m256i sum, __m256i columns, __m256i row) HONE_AVX2 __attribute__((always_inline)) {
          return _mm256_add_epi16(sum, byte_pair_dots(columns, row));
        });
#pragma GCC unroll 2
    for (int64_t c = 0; c < 2; ++c) {
      const float* scales = column_scales + c * kAvx2Lanes;
      const __m256 factors = _mm256_loadu_ps(scales), lowest = _mm256_loadu_ps(scales + kPanelColumns);
#pragma GCC unroll 4
      for (int64_t r = 0; r < kSumRows; ++r) {
        float* to = sums + r * stride + c * kAvx2Lanes;
        const __m256 values = _mm256_mul_ps(_mm256_cvtepi32_ps(sums_of_pairs(dots.of[r][c])), factors);
        increase(to, lowest, _mm256_set1_ps(row_sums[r]));
        increase(to, values, _mm256_set1_ps(row_scales[r]));
      }
    }
  }
}

HONE_AVX2 void multiply_int8_avx2(const int32_t* x, const float* row_scales, const int32_t* w, int64_t groups, float* sums,
                                  int64_t stride) {
  for (int64_t r = 0; r < kPanelRows; r += kSumRows)
    for (int64_t c = 0; c < kPanelColumns; c += kSumColumns)
      multiply_int8_part(x + r, row_scales + r, w + c, groups, sums + r * stride + c, stride);
}

HONE_AVX2 void multiply_int4_avx2(const int32_t* x, const float* row_scales, const float* row_sums, const int32_t* w,
                                  const float* column_scales, int64_t groups, float* sums, int64_t stride) {
  for (int64_t r = 0; r < kPanelRows; r += kSumRows)
    for (int64_t c = 0; c < kPanelColumns; c += kSumColumns)
      multiply_int4_part(x + r, row_scales + r, row_sums + r, w + c, column_scales + c, groups, sums + r * stride + c, stride);
}

}  // namespace

const PanelDotKernels kAvx2Panels{pack_int8_rows,   pack_int4_rows,     pack_int8_columns, pack_int4_columns,
                                  pack_int4_scales, multiply_int8_avx2, multiply_int4_avx2};

const PanelDotKernels& panel_dot_kernels() { return device::cpu_features().avx512_vnni ? kVnniPanels : kAvx2Panels; }

}  // namespace hone::ops::cpu

#endif
