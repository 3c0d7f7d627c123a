// Every operator on an NPU beside its definition on the CPU: values and gradients. Runs under `hone emulate-npu` (tests/npu) or
// on a card.
#include "hone/device/npu.h"
#include "hone/device/device.h"
#include "hone/device/npu/fallback.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/paged_attention.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/moe/moe_permute.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/sample_tokens.h"
#include "hone/ops/swiglu.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

class NpuOperators : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::npu::present()) GTEST_SKIP() << "no NPU, real or emulated";
    npu_ = device::select_device("npu:0");
    at::manual_seed(3);
  }
  // The operator on the NPU, given and giving tensors of the CPU, so that gradients cross too.
  Operator on_npu(const Operator& op) const {
    return [this, op](const TensorList& inputs) {
      TensorList there;
      for (const auto& input : inputs) there.push_back(input.to(npu_));
      return op(there).to(at::kCPU);
    };
  }
  void expect_agreement(const Operator& op, const Operator& definition, const TensorList& inputs, double tolerance = 2e-5) const {
    expect_same(on_npu(op), definition, inputs, tolerance);
  }
  at::Device npu_ = at::kCPU;
};

TEST_F(NpuOperators, Norm) {
  expect_agreement([](auto& in) { return rms_norm(in[0], in[1], 1e-6); },
                   [](auto& in) { return rms_norm_plain(in[0], in[1], 1e-6); }, {random({7, 32}), random({32})});
}

TEST_F(NpuOperators, RotaryEmbedding) {
  auto positions = at::arange(9, at::kInt), frequencies = at::rand({8});
  auto table = rope_table(positions, frequencies);
  RopeTable there{table.cos.to(npu_), table.sin.to(npu_)};
  expect_agreement([&](auto& in) { return rope(in[0], there); }, [&](auto& in) { return rope_plain(in[0], table); },
                   {random({9, 48})});
}

TEST_F(NpuOperators, GatedActivation) {
  expect_agreement([](auto& in) { return swiglu(in[0], in[1]); }, [](auto& in) { return swiglu_plain(in[0], in[1]); },
                   {random({5, 16}), random({5, 16})});
  auto adapters = [](const TensorList& in) { return std::vector<LoraWeights>{{.a = in[3], .b = in[4], .scale = 0.5}}; };
  expect_agreement([&](auto& in) { return swiglu_linear(in[0], in[1], in[2], {}, adapters(in), true); },
                   [&](auto& in) { return swiglu_linear_plain(in[0], in[1], in[2], {}, adapters(in), true); },
                   {random({5, 16}), random({5, 16}), random({8, 16}), random({2, 16}), random({8, 2})});
}

TEST_F(NpuOperators, LinearLayerWithAdapters) {
  auto layer = [](auto& compute) {
    return [&compute](const TensorList& in) {
      return compute(in[0], in[1], in[2], {LoraWeights{.a = in[3], .b = in[4], .scale = 0.5}}, true);
    };
  };
  auto as_node = [](const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                    bool training) { return lora_linear(x, weight, bias, adapters, training); };
  expect_agreement(layer(as_node), layer(lora_linear_plain),
                   {random({6, 16}), random({8, 16}), random({8}), random({2, 16}), random({8, 2})});
}

TEST_F(NpuOperators, AttentionOverPackedSequences) {
  CuSeqlens segments;
  for (int64_t length : {5, 1, 12}) segments.append(length);
  for (auto [window, causal] : {std::pair<int64_t, bool>{0, true}, {4, true}, {0, false}, {4, false}}) {
    AttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25, .window = window, .causal = causal};
    expect_agreement(
        [&](auto& in) { return attention(in[0], in[1], in[2], attention_metadata(segments, npu_), shape); },
        [&](auto& in) { return attention_plain(in[0], in[1], in[2], attention_metadata(segments, at::kCPU), shape); },
        {random({18, 64}), random({18, 32}), random({18, 32})});
  }
}

TEST_F(NpuOperators, LossFromHiddenStates) {
  auto targets = at::randint(33, {40}, at::kLong).masked_fill(at::rand({40}) < 0.4, kIgnoredTarget);
  auto weights = at::rand({40});
  for (double smoothing : {0.0, 0.1}) {
    CrossEntropyOptions options{.weights_t = weights, .label_smoothing = smoothing, .chunk_bytes = 1};
    auto there = options;
    there.weights_t = weights.to(npu_);
    expect_agreement([&](auto& in) { return linear_cross_entropy(in[0], in[1], Tensor(), targets.to(npu_), there).sum; },
                     [&](auto& in) { return linear_cross_entropy_plain(in[0], in[1], Tensor(), targets, options).sum; },
                     {random({40, 16}), random({33, 16})});
  }
}

TEST_F(NpuOperators, TokensThroughExperts) {
  auto experts = at::randint(4, {10, 2}, at::kLong);
  auto counts = at::bincount(experts.view(-1), {}, 4);
  auto mixture = [&](auto& to, auto& product, auto& from, at::Device device) {
    return [&, device](const TensorList& in) {
      auto sent = to(in[0], experts.to(device), 4);
      return from(product(sent.rows_rh, in[1], counts.to(device)), sent.permutation_r, in[2]);
    };
  };
  expect_agreement(mixture(moe_permute, grouped_matmul, moe_unpermute, npu_),
                   mixture(to_experts_plain, grouped_matmul_plain, from_experts_plain, at::kCPU),
                   {random({10, 16}), random({4, 16, 8}), at::rand({10, 2})});
}

TEST_F(NpuOperators, PagedCache) {
  constexpr int64_t kBlock = 16;
  AttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25};
  std::vector<int32_t> first{2, 0}, second{1};
  std::vector<PagedSequence> sequences{{19, 1, first}, {6, 1, second}};
  auto past = [&](at::Device device) {
    return KvCacheLayer{random({3, 2, kBlock, 16}, at::kHalf).to(device), random({3, 2, kBlock, 16}, at::kHalf).to(device)};
  };
  auto here = past(at::kCPU);
  KvCacheLayer there{here.keys.to(npu_), here.values.to(npu_)};
  auto q = random({2, 64}, at::kHalf), k = random({2, 32}, at::kHalf), v = random({2, 32}, at::kHalf);
  auto expected = paged_attention_plain(q, k, v, here, paged_attention_metadata(sequences, kBlock, at::kCPU), shape);
  auto found =
      paged_attention(q.to(npu_), k.to(npu_), v.to(npu_), there, paged_attention_metadata(sequences, kBlock, npu_), shape)
          .to(at::kCPU);
  EXPECT_LT(relative_difference(found, expected), tolerance_of(at::kHalf));
}

TEST_F(NpuOperators, DrawnTokensStayInsideTheirFilters) {
  auto logits = random({64, 50});
  std::vector<int32_t> k(64, 5);
  std::vector<float> p(64, 0.7F);
  auto allowed = at::isfinite(top_k_top_p_plain(logits, at::tensor(k), at::tensor(p)));
  for (bool mixed : {false, true}) {  // rows with and without a k: sorted here instead of by the kernel
    if (mixed) k[0] = 0, p[0] = 1;
    SamplingTensors draws{std::vector<float>(64, 1.5F), {}, k, p};
    draws.temperatures[1] = 0;
    for (int64_t i = 0; i < 64; ++i) draws.keys.push_back(static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u));
    auto warm = logits / at::tensor(draws.temperatures).clamp_min(0.001).unsqueeze(1);
    allowed = at::isfinite(top_k_top_p_plain(warm, at::tensor(k), at::tensor(p)));
    auto drawn = sample_tokens(logits.to(npu_), draws).to(at::kCPU);
    EXPECT_TRUE(allowed.gather(1, drawn.unsqueeze(1)).all().item<bool>());
    EXPECT_EQ(drawn[1].item<int64_t>(), logits[1].argmax().item<int64_t>());
    EXPECT_GT((drawn != logits.argmax(1)).sum().item<int64_t>(), 5);  // it draws
  }
}

TEST_F(NpuOperators, WhatTheNpuCannotComputeIsCounted) {
  auto before = device::npu::fallbacks();
  EXPECT_TRUE(at::equal(at::linalg_cholesky(at::eye(3).to(npu_)).to(at::kCPU), at::eye(3)));
  auto after = device::npu::fallbacks();
  EXPECT_EQ(after.size(), before.size() + 1);
  EXPECT_NE(device::npu::fallback_summary().find("aten::linalg_cholesky_ex"), std::string::npos)
      << device::npu::fallback_summary();
}

TEST_F(NpuOperators, AreLive) {
  for (const auto& op : npu::operator_states()) EXPECT_TRUE(op.live) << op.name;
}

}  // namespace
}  // namespace hone::ops
