// Kernels over a panel of gemm/panel_gemm_kernels.h, floats [depth, kPanelColumns]: each of its columns is a row of logits. On
// x86 they are in gemm/x86/panel_columns_avx.cpp.
#pragma once
#include <cstdint>

#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"

namespace hone::ops::cpu {

// Whether these kernels and products of panels are faster than libtorch's operators: on Arm, and on x86 with AVX-512.
bool has_panel_columns();

struct PanelColumns {
  float of[kPanelColumns] = {};
};

struct RangeOfColumns {
  PanelColumns largest, smallest;
};
RangeOfColumns range_of_columns(const float* panel, int64_t depth);

PanelColumns sums_of_columns(const float* panel, int64_t depth);
void scale_columns(float* panel, int64_t depth, const PanelColumns& factors);

// exp(logit - peak), and their sums. `is_near`: no logit is more than -kSmallestNear below its peak, so that none needs clamping.
constexpr float kSmallestNear = -87.0f;
PanelColumns exponentials_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near);

// 2^(score - peak) and their sums, in fewer instructions; 0 where the score is more than -kSmallestPower below. Peaks are
// integers of at most kLargestPeak in magnitude and at least the largest score. `is_near`: no score is that far below.
constexpr float kSmallestPower = -126.0f, kLargestPeak = 2097152.0f;
PanelColumns powers_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near);

// Scores become weights 2^(score - logsumexp), the gradients of weights those of scores, weight * scale * (gradient - dot).
void weights_and_gradients(float* weights, float* gradients, const float* logsumexp, const float* dots, int64_t count,
                           float scale);

}  // namespace hone::ops::cpu
