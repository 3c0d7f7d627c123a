// GPTQ: inputs are rounded one after the other, and those still to come are changed so that the layer's outputs stay what they
// were.
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
