// Comparing a fused operator with its definition: values and the gradient of every input.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "hone/device/tensor.h"

namespace hone::ops {

using Operator = std::function<Tensor(const TensorList&)>;

// Relative to the largest value; gradients that cancel to nothing are compared as they are.
inline double relative_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to(at::kDouble), y = b.to(at::kDouble);
  double scale = std::max(y.abs().max().item<double>(), 0.1);
  return (x - y).abs().max().item<double>() / scale;
}

// `inputs` are made leaves; integer tensors pass through unchanged.
inline void expect_same(const Operator& fused, const Operator& plain, const TensorList& inputs, double tolerance) {
  auto run = [&](const Operator& op) {
    TensorList leaves;
    for (const auto& input : inputs)
      leaves.push_back(input.is_floating_point() ? input.detach().clone().requires_grad_() : input);
    auto y = op(leaves);
    at::manual_seed(7);
    auto dy = at::randn(y.sizes(), at::TensorOptions(at::kFloat)).to(y.scalar_type());
    y.backward(dy);
    TensorList results{y.detach()};
    for (const auto& leaf : leaves)
      if (leaf.is_floating_point()) results.push_back(leaf.grad());
    return results;
  };
  auto found = run(fused), expected = run(plain);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << "result " << i;
    if (!expected[i].defined()) continue;
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << "result " << i;
    ASSERT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << "result " << i;
    EXPECT_LT(relative_difference(found[i], expected[i]), tolerance)
        << "result " << i << " (0 is the value, then each input's gradient)";
  }
}

inline Tensor random(std::initializer_list<int64_t> shape, at::ScalarType dtype = at::kFloat) {
  return at::randn(shape, at::TensorOptions(at::kFloat)).to(dtype);
}

// 16-bit results differ from the definition's by a few roundings.
inline double tolerance_of(at::ScalarType dtype) { return dtype == at::kFloat ? 2e-5 : dtype == at::kHalf ? 4e-3 : 2.5e-2; }

inline const at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

}  // namespace hone::ops
