// multiply_panels with 256-bit SVE: the eight rows of a panel fit one register, so that a step of the sum takes twelve
// instructions where NEON needs twenty-four. Each sum is added in the same order and is bit-identical. In assembly, since GCC 12
// mixes up the functions of arm_sve.h with precompiled headers.
#if defined(__aarch64__)

#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"

namespace hone::ops::cpu {
namespace {

// columns [12, 8] = the product of two panels of `depth` steps, at least one.
__attribute__((noinline, target("arch=armv8.2-a+sve"))) void panel_columns(const float* x, const float* w, int64_t depth,
                                                                           float* columns) {
  asm volatile(
      "ptrue p0.s\n"
      "dup z16.s, #0\n dup z17.s, #0\n dup z18.s, #0\n dup z19.s, #0\n dup z20.s, #0\n dup z21.s, #0\n"
      "dup z22.s, #0\n dup z23.s, #0\n dup z24.s, #0\n dup z25.s, #0\n dup z26.s, #0\n dup z27.s, #0\n"
      "1:\n"
      "ld1w {z3.s}, p0/z, [%[x]]\n"
      "ld1rqw {z0.s}, p0/z, [%[w]]\n ld1rqw {z1.s}, p0/z, [%[w], #16]\n ld1rqw {z2.s}, p0/z, [%[w], #32]\n"
      "add %[x], %[x], #32\n add %[w], %[w], #48\n subs %[depth], %[depth], #1\n"
      "fmla z16.s, z3.s, z0.s[0]\n fmla z17.s, z3.s, z0.s[1]\n fmla z18.s, z3.s, z0.s[2]\n fmla z19.s, z3.s, z0.s[3]\n"
      "fmla z20.s, z3.s, z1.s[0]\n fmla z21.s, z3.s, z1.s[1]\n fmla z22.s, z3.s, z1.s[2]\n fmla z23.s, z3.s, z1.s[3]\n"
      "fmla z24.s, z3.s, z2.s[0]\n fmla z25.s, z3.s, z2.s[1]\n fmla z26.s, z3.s, z2.s[2]\n fmla z27.s, z3.s, z2.s[3]\n"
      "b.ne 1b\n"
      "st1w {z16.s}, p0, [%[to]]\n st1w {z17.s}, p0, [%[to], #1, mul vl]\n st1w {z18.s}, p0, [%[to], #2, mul vl]\n"
      "st1w {z19.s}, p0, [%[to], #3, mul vl]\n st1w {z20.s}, p0, [%[to], #4, mul vl]\n st1w {z21.s}, p0, [%[to], #5, mul vl]\n"
      "add %[to], %[to], #192\n"
      "st1w {z22.s}, p0, [%[to]]\n st1w {z23.s}, p0, [%[to], #1, mul vl]\n st1w {z24.s}, p0, [%[to], #2, mul vl]\n"
      "st1w {z25.s}, p0, [%[to], #3, mul vl]\n st1w {z26.s}, p0, [%[to], #4, mul vl]\n st1w {z27.s}, p0, [%[to], #5, mul vl]\n"
      : [x] "+r"(x), [w] "+r"(w), [depth] "+r"(depth), [to] "+r"(columns)
      :
      : "memory", "cc", "p0", "z0", "z1", "z2", "z3", "z16", "z17", "z18", "z19", "z20", "z21", "z22", "z23", "z24", "z25", "z26",
        "z27");
}

}  // namespace

void multiply_panels_sve256(const float* x, const float* w, int64_t depth, float* sums, int64_t stride, bool increase) {
  static_assert(kPanelRows == 8 && kPanelColumns == 12);
  float columns[kPanelColumns * kPanelRows];
  panel_columns(x, w, depth, columns);
  for (int64_t row = 0; row < kPanelRows; ++row)
    for (int64_t column = 0; column < kPanelColumns; ++column) {
      float& sum = sums[row * stride + column];
      sum = increase ? sum + columns[column * kPanelRows + row] : columns[column * kPanelRows + row];
    }
}

}  // namespace hone::ops::cpu

#endif
