// panel_gemm_kernels.h in bfloat16, with Arm's BFMMLA: one instruction multiplies four numbers of two rows by four of two
// columns and accumulates in float32. Four steps of a sum are adjacent, those of two lines in one register.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {
namespace {

#define HONE_BFMMLA __attribute__((target("arch=armv8.2-a+bf16")))

HONE_INLINE const uint16_t* bits_at(const c10::BFloat16* from) { return reinterpret_cast<const uint16_t*>(from); }
HONE_INLINE uint16x8_t first_halves(uint16x8_t a, uint16x8_t b) {
  return vreinterpretq_u16_u64(vzip1q_u64(vreinterpretq_u64_u16(a), vreinterpretq_u64_u16(b)));
}
HONE_INLINE uint16x8_t second_halves(uint16x8_t a, uint16x8_t b) {
  return vreinterpretq_u16_u64(vzip2q_u64(vreinterpretq_u64_u16(a), vreinterpretq_u64_u16(b)));
}

// Eight steps of two lines, each contiguous.
template <int64_t P>
HONE_INLINE void pack_two_lines(const uint16_t* line, const uint16_t* next, uint16_t* to) {
  const uint16x8_t a = vld1q_u16(line), b = vld1q_u16(next);
  vst1q_u16(to, first_halves(a, b));
  vst1q_u16(to + kBf16Steps * P, second_halves(a, b));
}

// Four steps of four lines that are adjacent in memory, `stride` apart from step to step.
HONE_INLINE void pack_four_steps(const uint16_t* from, int64_t stride, uint16_t* to) {
  const uint16x4_t a = vld1_u16(from), b = vld1_u16(from + stride), c = vld1_u16(from + 2 * stride),
                   d = vld1_u16(from + 3 * stride);
  const uint32x4_t ab = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(a, b), vzip2_u16(a, b))),
                   cd = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(c, d), vzip2_u16(c, d)));
  vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(ab, cd)));
  vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(ab, cd)));
}

template <int64_t P>
HONE_INLINE void pack_bf16_panel(const uint16_t* from, const PanelSource& source, int64_t lines, uint16_t* to) {
  int64_t k = 0;
  if (lines == P && source.depth_stride == 1) {
    for (; k + 2 * kBf16Steps <= source.depth; k += 2 * kBf16Steps)
#pragma GCC unroll 6
      for (int64_t p = 0; p < P; p += 2)
        pack_two_lines<P>(from + p * source.line_stride + k, from + (p + 1) * source.line_stride + k,
                          to + k * P + p * kBf16Steps);
  } else if (lines == P && source.line_stride == 1) {
    for (; k + kBf16Steps <= source.depth; k += kBf16Steps)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4)
        pack_four_steps(from + k * source.depth_stride + p, source.depth_stride, to + k * P + p * kBf16Steps);
  }
  for (; k < source.depth; k += kBf16Steps)
    for (int64_t p = 0; p < P; ++p)
      for (int64_t i = 0; i < kBf16Steps; ++i)
        to[k * P + p * kBf16Steps + i] =
            p < lines && k + i < source.depth ? from[p * source.line_stride + (k + i) * source.depth_stride] : uint16_t{0};
}

template <int64_t P>
HONE_INLINE void pack_bf16_panels(const c10::BFloat16* from, const PanelSource& source, c10::BFloat16* to) {
  const int64_t depth = (source.depth + kBf16Steps - 1) / kBf16Steps * kBf16Steps;
  for (int64_t line = 0; line < source.lines; line += P, to += P * depth)
    pack_bf16_panel<P>(bits_at(from + line * source.line_stride), source, source.lines - line < P ? source.lines - line : P,
                       reinterpret_cast<uint16_t*>(to));
}

// Two rows times twelve columns: each register holds the sums of both rows with two columns.
struct Bf16Sums {
  float32x4_t a, b, c, d, e, f;
};
HONE_INLINE void put_two(float32x4_t left, float32x4_t right, float* first, float* second, bool increase) {
  const float64x2_t l = vreinterpretq_f64_f32(left), r = vreinterpretq_f64_f32(right);
  const float32x4_t above = vreinterpretq_f32_f64(vzip1q_f64(l, r)), below = vreinterpretq_f32_f64(vzip2q_f64(l, r));
  vst1q_f32(first, increase ? vaddq_f32(vld1q_f32(first), above) : above);
  vst1q_f32(second, increase ? vaddq_f32(vld1q_f32(second), below) : below);
}
HONE_INLINE void put_rows(const Bf16Sums& sums, float* to, int64_t stride, bool increase) {
  put_two(sums.a, sums.b, to, to + stride, increase);
  put_two(sums.c, sums.d, to + 4, to + stride + 4, increase);
  put_two(sums.e, sums.f, to + 8, to + stride + 8, increase);
}

}  // namespace

void pack_row_panels(const c10::BFloat16* from, const PanelSource& source, c10::BFloat16* to) {
  pack_bf16_panels<kPanelRows>(from, source, to);
}
void pack_column_panels(const c10::BFloat16* from, const PanelSource& source, c10::BFloat16* to) {
  pack_bf16_panels<kPanelColumns>(from, source, to);
}

HONE_BFMMLA __attribute__((noinline, noclone)) void multiply_bf16_panels(const c10::BFloat16* row_panel,
                                                                         const c10::BFloat16* column_panel, int64_t depth,
                                                                         float* sums, int64_t stride, bool increase) {
  const auto *x = reinterpret_cast<const bfloat16_t*>(row_panel), *w = reinterpret_cast<const bfloat16_t*>(column_panel);
  Bf16Sums p0{}, p1{}, p2{}, p3{};
  for (int64_t k = 0; k < depth; k += kBf16Steps, x += kBf16Steps * kPanelRows, w += kBf16Steps * kPanelColumns) {
    const bfloat16x8_t x0 = vld1q_bf16(x), x1 = vld1q_bf16(x + 8), x2 = vld1q_bf16(x + 16), x3 = vld1q_bf16(x + 24);
    const auto add = [&](float32x4_t Bf16Sums::*sum, const bfloat16_t* from)
        __attribute__((always_inline, target("arch=armv8.2-a+bf16"))) {
      const bfloat16x8_t columns = vld1q_bf16(from);
      p0.*sum = vbfmmlaq_f32(p0.*sum, x0, columns), p1.*sum = vbfmmlaq_f32(p1.*sum, x1, columns);
      p2.*sum = vbfmmlaq_f32(p2.*sum, x2, columns), p3.*sum = vbfmmlaq_f32(p3.*sum, x3, columns);
    };
    add(&Bf16Sums::a, w), add(&Bf16Sums::b, w + 8), add(&Bf16Sums::c, w + 16);
    add(&Bf16Sums::d, w + 24), add(&Bf16Sums::e, w + 32), add(&Bf16Sums::f, w + 40);
  }
  put_rows(p0, sums, stride, increase), put_rows(p1, sums + 2 * stride, stride, increase);
  put_rows(p2, sums + 4 * stride, stride, increase), put_rows(p3, sums + 6 * stride, stride, increase);
}

}  // namespace hone::ops::cpu

#endif
