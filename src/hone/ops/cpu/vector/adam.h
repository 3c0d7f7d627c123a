// AdamW on a span of float32 elements: one pass over parameter, gradient and both moments, with one division and one root each.
#pragma once
#include <cstdint>

namespace hone::ops::cpu {

// Which multiplications and additions of the second moment are fused. The compiler decides this, so it differs between builds of
// libtorch.
enum class AdamRounding { separate, fused_square, fused_decay };

struct AdamStep {
  float keep;     // 1 - learning rate * weight decay
  float rate;     // learning rate / (1 - beta1^step)
  float weight1;  // 1 - beta1
  float beta2;
  float weight2;      // 1 - beta2
  float correction2;  // sqrt(1 - beta2^step)
  float epsilon;
  AdamRounding rounding;
};

void adam_span(float* parameter, const float* gradient, float* first, float* second, int64_t count, const AdamStep& step);

}  // namespace hone::ops::cpu
