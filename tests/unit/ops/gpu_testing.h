// Kernels on an NVIDIA GPU compared with their definitions computed in float32.
#pragma once
#include "hone/ops/cuda/training.h"
#include "ops/ops_testing.h"

namespace hone::ops {

class GpuTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || !cuda::supports_rows(at::zeros({8, 8}, at::TensorOptions(at::kFloat).device(at::kCUDA))))
      GTEST_SKIP() << "no GPU, or no kernels for it";
    at::manual_seed(5);
  }
};

inline Tensor on_gpu(std::initializer_list<int64_t> shape, at::ScalarType type = at::kBFloat16, double size = 1) {
  return (at::randn(shape, at::TensorOptions(at::kFloat).device(at::kCUDA)) * size).to(type);
}

inline double gpu_distance(const Tensor& found, const Tensor& expected) {
  auto x = found.to(at::kDouble), y = expected.to(at::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
}

// Values and gradients of `fused` on 16-bit inputs compared with those of `plain` on the same numbers in float32.
using GpuOperators = std::function<TensorList(const TensorList&)>;
inline void expect_near_on_gpu(const GpuOperators& fused, const GpuOperators& plain, const TensorList& inputs,
                               double tolerance = 1e-2) {
  auto run = [&](const GpuOperators& op, bool wide) {
    TensorList leaves, results;
    for (const auto& input : inputs) leaves.push_back((wide ? input.to(at::kFloat) : input).detach().clone().requires_grad_());
    Tensor sum;
    at::manual_seed(11);
    for (auto& y : op(leaves)) {
      auto weighted = (y.to(at::kFloat) * at::randn(y.sizes(), y.options().dtype(at::kFloat))).sum();
      sum = sum.defined() ? sum + weighted : weighted;
      results.push_back(y.detach());
    }
    sum.backward();
    for (auto& leaf : leaves) results.push_back(leaf.grad());
    return results;
  };
  auto found = run(fused, false), expected = run(plain, true);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!found[i].defined()) {
      EXPECT_TRUE(!expected[i].defined() || expected[i].abs().max().item<double>() == 0) << "result " << i;
    } else
      EXPECT_LT(gpu_distance(found[i], expected[i]), tolerance) << "result " << i;
  }
}

constexpr int64_t kGpuTokens = 200, kGpuIn = 128, kGpuRank = 8;

}  // namespace hone::ops
