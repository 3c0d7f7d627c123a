// Kernels of one token of a gated delta net, over plain rows. T: float, c10::BFloat16, c10::Half.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hone::ops::cpu {

constexpr int64_t kMaxDeltaKeys = 512;  // longest key of a head
constexpr int64_t kConvSteps = 4;       // positions that the convolution reads, the new one included

// y = the convolution of channels [0, count) of a row. `past` has the three inputs before x, each `stride` after the other,
// and drops the oldest for x. `weight` has four numbers per channel.
template <class T>
void conv_step_span(const T* x, const T* weight, T* past, int64_t stride, T* y, int64_t count);

// One head: normalizes q and k, and updates and reads its state, rows of `values` for each of `keys` (at most kMaxDeltaKeys).
template <class T>
void delta_step_head(const T* q, const T* k, const T* v, float decay, float beta, float* state, T* y, int64_t keys,
                     int64_t values);

}  // namespace hone::ops::cpu
