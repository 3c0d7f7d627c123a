// Elementwise kernels over plain rows, each compiled for every instruction set and selected on the first call. T: float,
// c10::BFloat16, c10::Half.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hone::ops::cpu {

// y = x / rms(x) * weight for each row; rstd keeps 1 / rms(x). With `added`, sum = x + added takes the place of x.
template <class T>
void rms_norm_rows(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int64_t rows, int64_t width,
                   float eps);
// dsum: what the sum's other uses add to dx, or null. dweight: a float row to which these rows' gradient is added, or null.
template <class T>
void rms_norm_backward_rows(const T* dy, const T* x, const T* weight, const float* rstd, const T* dsum, T* dx, float* dweight,
                            int64_t rows, int64_t width);

// Rotates each head's halves by the row's angles; direction -1 rotates back.
template <class T>
void rope_rows(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads, int64_t half);

template <class T>
void swiglu_span(const T* gate, const T* up, T* y, int64_t count);
template <class T>
void swiglu_backward_span(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count);

struct SoftmaxOfRow {
  float peak, total;  // the largest logit, and the sum of exponentials relative to it
  float all;          // the sum of the logits themselves, if requested
};
template <class T>
SoftmaxOfRow softmax_of_row(const T* row, int64_t width, bool with_sum);
// Each logit becomes exp(logit - peak) * scale - spread; no logit exceeds `peak`.
template <class T>
void softmax_gradient_row(T* row, int64_t width, float peak, float scale, float spread);

float max_of_row(const float* row, int64_t width);
float sum_of_row(const float* row, int64_t width);
// exp(logit - peak), which must be below 2^127; returns their sum.
float exponentials_in_place(float* row, int64_t width, float peak);
void add_scaled_row(float* row, const float* other, int64_t width, float scale,
                    float other_scale);  // row = row * scale + other * other_scale
void scale_row(float* row, int64_t width, float factor);
// Gradients of softmax weights become those of the scores: weight * scale * (gradient - dot). `dot`: of weights and gradients.
void softmax_backward_row(const float* weights, float* gradients, int64_t width, float dot, float scale);

// Elements [begin, begin + count) of a dropout mask: `value` where the element's random word is below `limit`, else 0.
void dropout_span(float* mask, uint64_t begin, int64_t count, uint64_t seed, uint32_t limit, float value);

template <class T>
void widen_span(const T* x, float* y, int64_t count);  // y = x
// y = x * mask.
template <class T>
void masked_span(const T* x, const float* mask, float* y, int64_t count);
// y = [y +] scale * mask * x; `mask` may be null.
template <class T>
void update_span(const float* x, float scale, const float* mask, bool adds, T* y, int64_t count);

void widen_bytes(const uint8_t* codes, float step, float low, int64_t count, float* values);  // code * step + low
void widen_nibbles(const uint8_t* codes, float step, float low, int64_t half,
                   float* values);  // lower nibbles first, then the upper ones

}  // namespace hone::ops::cpu
