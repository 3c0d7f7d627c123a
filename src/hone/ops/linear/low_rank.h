// Values and gradients of a linear layer with low-rank updates, for autograd nodes that contain one.
#pragma once
#include <vector>

#include "hone/ops/linear/lora_linear.h"

namespace hone::ops {

// One update in one pass: y += scale * drop(x) A^T B^T.
struct LowRankTerm {
  Tensor a, b;
  double scale = 1.0;
  Tensor dropout_mask;  // [T, in] of 0 and 1 / (1 - p) in a's type; undefined without dropout
  Tensor projected;     // drop(x) A^T [T, r]: kept from the forward pass for b's gradient
  bool rounds = false;  // computed by rounded_low_rank.h, and then:
  double dropout = 0;   // `dropout_mask` is the forward pass's
  Tensor rounded_a, rounded_b;
};

struct LinearGradients {
  Tensor x, weight, bias;
  std::vector<std::pair<Tensor, Tensor>> terms;  // of a and b
};
struct NeedsGrad {
  bool x = true, weight = false, bias = false;
};

// The active adapters as terms; draws dropout masks for x in training.
std::vector<LowRankTerm> low_rank_terms(const Tensor& x, const std::vector<LoraWeights>& adapters, bool training);

// y of x [T, in]; fills each term's `projected`.
Tensor low_rank_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, std::vector<LowRankTerm>& terms,
                        const Float8Weight& float8 = {});
// Fills the terms like low_rank_forward, and returns a y without meaningful values.
Tensor low_rank_unread(const Tensor& x, const Tensor& weight, std::vector<LowRankTerm>& terms);
// `x` may be undefined if neither the weight nor a term's `a` needs a gradient.
LinearGradients low_rank_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const std::vector<LowRankTerm>& terms,
                                  const NeedsGrad& needs, const Float8Weight& float8 = {});

}  // namespace hone::ops
