// GPTQ: rounds inputs one by one and adjusts the remaining ones to compensate for the output error.
#pragma once
#include "hone/tuner/quantize/group_quantizer.h"

namespace hone::tuner {

struct GptqConfig {
  GroupQuantConfig grid{.bits = 4, .group = 128, .symmetric = true};
  double damping = 0.01;  // share of the mean of the diagonal that is added to it, so that it can be inverted
};

// `products` is the sum of x xᵀ over the layer's inputs.
QuantizedWeight gptq_quantize(const Tensor& weight, const Tensor& products, const GptqConfig& config);

}  // namespace hone::tuner
