// Kernels of experts on an NVIDIA GPU. Skipped where there is no GPU or nothing was built for one.
#include "hone/ops/cuda/grouped_gemm.h"
#include "hone/ops/moe/moe.h"
#include "hone/ops/moe/moe_permute.h"
#include "ops/gpu_testing.h"

namespace hone::ops {
namespace {

// Rows to the experts, their products, and the weighted sum of what comes back.
TEST_F(GpuTraining, ExpertsMatchTheirDefinition) {
  constexpr int64_t kExperts = 16;
  for (int64_t choices : {1, 3, 8}) {
    const auto experts = std::get<1>(on_gpu({kGpuTokens, kExperts}, at::kFloat).topk(choices, 1));
    const auto counts = at::bincount(experts.reshape({-1}), {}, kExperts);
    const TensorList inputs{on_gpu({kGpuTokens, kGpuIn}), on_gpu({kExperts, 64, kGpuIn}, at::kBFloat16, 0.1),
                            on_gpu({kGpuTokens, choices}, at::kFloat).abs()};
    expect_near_on_gpu(
        [&](const TensorList& in) {
          const auto sent = moe_permute(in[0], experts, kExperts);
          const auto rows = grouped_matmul(sent.rows_rh, in[1].transpose(1, 2), counts);
          EXPECT_TRUE(at::equal(sent.counts_e, counts));
          return TensorList{moe_unpermute(rows, sent.permutation_r, in[2])};
        },
        [&](const TensorList& in) {
          const auto sent = to_experts_plain(in[0], experts, kExperts);
          const auto rows = grouped_matmul_plain(sent.rows_rh, in[1].transpose(1, 2), counts);
          return TensorList{from_experts_plain(rows, sent.permutation_r, in[2])};
        },
        inputs, 2e-2);
  }
}

// Experts without rows, with one, and with several tiles; the same among many without rows; more experts than a warp has threads,
// all with few rows; sizes that no tile divides.
TEST_F(GpuTraining, GroupedProductsMatchTheirDefinition) {
  const auto several = at::tensor(std::vector<int64_t>{0, 1, 300, 17, 513, 0, 256, 40}, at::kLong).to(at::kCUDA);
  const auto sparse = at::cat({several, at::zeros({24}, several.options())}),
             few = at::arange(80, several.options()).remainder(33);
  if (!cuda::supports_grouped_gemm(on_gpu({64, 64}), on_gpu({1, 64, 128}))) GTEST_SKIP() << "no kernel for this GPU";
  for (const auto& counts : {several, sparse, few})
    for (auto [in, out] : {std::pair(192, 256), std::pair(200, 328), std::pair(128, 128)}) {
      const TensorList inputs{on_gpu({counts.sum().item<int64_t>(), in}), on_gpu({counts.size(0), out, in}, at::kBFloat16, 0.1)};
      EXPECT_TRUE(cuda::supports_grouped_gemm(inputs[0], inputs[1].transpose(1, 2))) << in << " x " << out;
      expect_near_on_gpu(
          [&](const TensorList& x) { return TensorList{grouped_matmul(x[0], x[1].transpose(1, 2), counts)}; },
          [&](const TensorList& x) { return TensorList{grouped_matmul_plain(x[0], x[1].transpose(1, 2), counts)}; }, inputs);
    }
}

TEST_F(GpuTraining, ChoicesAreSortedByExpert) {
  for (int64_t experts : {5, 128, 600})
    for (int64_t tokens : {1, 700, 3000}) {
      const auto chosen = at::randint(experts, {tokens, 3}, at::TensorOptions(at::kLong).device(at::kCUDA));
      const auto rows = on_gpu({tokens, 16});
      const auto found = moe_permute(rows, chosen, experts), expected = to_experts_plain(rows, chosen, experts);
      EXPECT_TRUE(at::equal(found.order_r, expected.order_r)) << experts << " experts, " << tokens << " tokens";
      EXPECT_TRUE(at::equal(found.permutation_r, expected.permutation_r));
      EXPECT_TRUE(at::equal(found.counts_e, expected.counts_e));
      EXPECT_TRUE(at::equal(found.rows_rh, expected.rows_rh));
    }
}

TEST_F(GpuTraining, RoutingMatchesItsDefinition) {
  for (int64_t experts : {8, 60, 128, 300})
    for (bool normalized : {false, true}) {
      auto route = [&](const TensorList& in) { return TensorList{route_top_k(in[0], 8, normalized).weights_tk}; };
      auto plain = [&](const TensorList& in) {
        auto weights = std::get<0>(at::softmax(in[0], -1).topk(8, -1));
        return TensorList{normalized ? weights / weights.sum(-1, true) : weights};
      };
      expect_near_on_gpu(route, plain, {on_gpu({kGpuTokens, experts}, at::kFloat)}, 1e-5);
      const auto logits = on_gpu({kGpuTokens, experts}, at::kFloat);
      EXPECT_TRUE(at::equal(route_top_k(logits, 8, normalized).experts_tk, std::get<1>(logits.topk(8, -1))));
    }
  auto broken = on_gpu({2, 40}, at::kFloat);
  broken[1].fill_(NAN);
  const auto found = route_top_k(broken, 4, true);
  EXPECT_TRUE((found.experts_tk.ge(0) & found.experts_tk.lt(40)).all().item<bool>()) << "an expert beyond the last";
  EXPECT_TRUE(found.weights_tk[1].isnan().all().item<bool>());
  EXPECT_FALSE(found.weights_tk[0].isnan().any().item<bool>());
}

// The whole MLP of experts: routing weights enter before the last product.
TEST_F(GpuTraining, ExpertMlpMatchesItsDefinition) {
  constexpr int64_t kExperts = 16, kInner = 96;
  for (int64_t choices : {1, 4}) {
    const auto experts = std::get<1>(on_gpu({kGpuTokens, kExperts}, at::kFloat).topk(choices, 1));
    const std::vector<LoraWeights> none;
    auto run = [&](auto mlp) {
      return [&, mlp](const TensorList& in) {
        return TensorList{
            mlp(in[0], TopKRouting{experts, in[3].to(at::kFloat)}, ExpertLinear{in[1], none}, ExpertLinear{in[2], none})};
      };
    };
    expect_near_on_gpu(run(expert_mlp), run(expert_mlp_plain),
                       {on_gpu({kGpuTokens, kGpuIn}), on_gpu({kExperts, 2 * kInner, kGpuIn}, at::kBFloat16, 0.1),
                        on_gpu({kExperts, kGpuIn, kInner}, at::kBFloat16, 0.1), on_gpu({kGpuTokens, choices}, at::kFloat).abs()},
                       2e-2);
  }
}

}  // namespace
}  // namespace hone::ops
