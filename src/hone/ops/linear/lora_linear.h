// y = x W^T + b, plus low-rank updates: the one linear layer of hone. Shapes: x [..., in], W [out, in], A [r, in], B [out, r].
#pragma once
#include <string>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/ops/linear/float8_weight.h"

namespace hone::ops {

// One adapter on one linear layer. With a magnitude m (DoRA) the layer's output direction is normalized: W' = m (W + s B A) / |W
// + s B A|.
struct LoraWeights {
  std::string adapter = "default";
  Tensor a, b;
  Tensor magnitude;      // [out], undefined unless DoRA
  double scale = 1.0;    // alpha / r, or alpha / sqrt(r)
  double dropout = 0.0;  // on the adapter's input, in training only
  bool active = true;
};

// The definition: obvious and differentiable; oracle and fallback of the fused path.
Tensor lora_linear_plain(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                         bool training);

// The same on top of a product y = x W^T + b that was computed elsewhere.
Tensor with_updates_plain(Tensor y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const std::vector<LoraWeights>& adapters, bool training);

// One autograd node for the full layer: no copy of x per adapter, no gradient for a frozen weight. `float8` is the weight if its
// products are in float8.
Tensor lora_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                   bool training, const Float8Weight& float8 = {});

}  // namespace hone::ops
