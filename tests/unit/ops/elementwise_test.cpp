#include "hone/ops/attention/rope.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/rope.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/swiglu.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

class Elementwise : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(1); }
};
INSTANTIATE_TEST_SUITE_P(Types, Elementwise, testing::ValuesIn(kTypes),
                         [](const auto& info) { return c10::toString(info.param); });

TEST_P(Elementwise, RmsNormMatchesItsDefinition) {
  for (int64_t width : {5, 15, 16, 17, 64, 896}) {
    for (int64_t rows : {1, 3, 130}) {
      SCOPED_TRACE(fmt::format("{} x {}", rows, width));
      expect_same([](auto& in) { return rms_norm(in[0], in[1], 1e-6); },
                  [](auto& in) { return rms_norm_plain(in[0], in[1], 1e-6); },
                  {random({rows, width}, GetParam()), random({width}, GetParam())}, tolerance_of(GetParam()));
    }
  }
}

TEST_P(Elementwise, SumAndNormMatchTheirDefinition) {
  for (int64_t width : {5, 17, 160}) {
    for (int64_t rows : {1, 130}) {
      SCOPED_TRACE(fmt::format("{} x {}", rows, width));
      auto both = [](const NormedSum& found) { return at::cat({found.sum, found.normed}); };
      TensorList inputs{random({rows, width}, GetParam()), random({rows, width}, GetParam()), random({width}, GetParam())};
      expect_same([&](auto& in) { return both(add_rms_norm(in[0], in[1], in[2], 1e-6)); },
                  [&](auto& in) { return both(add_rms_norm_plain(in[0], in[1], in[2], 1e-6)); }, inputs,
                  tolerance_of(GetParam()));
      at::NoGradGuard no_grad;
      auto found = add_rms_norm(inputs[0], inputs[1], inputs[2], 1e-6);
      EXPECT_TRUE(at::equal(found.sum, inputs[0] + inputs[1]));
      EXPECT_TRUE(at::equal(found.normed, rms_norm(found.sum, inputs[2], 1e-6)));
    }
  }
}

TEST_P(Elementwise, RmsNormOfHeadsKeepsItsShape) {
  auto y = rms_norm(random({5, 4, 32}, GetParam()), random({32}, GetParam()), 1e-6);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{5, 4, 32}));
}

TEST_P(Elementwise, RopeMatchesItsDefinition) {
  for (int64_t half : {1, 4, 16, 17, 64}) {
    auto table = rope_table(at::tensor({0, 1, 2, 7, 100000, 5}, at::kLong), at::rand({half}));
    SCOPED_TRACE(half);
    expect_same([&](auto& in) { return rope(in[0], table); }, [&](auto& in) { return rope_plain(in[0], table); },
                {random({6, 3 * 2 * half}, GetParam())}, tolerance_of(GetParam()));
  }
}

TEST_P(Elementwise, SwigluMatchesItsDefinition) {
  for (int64_t width : {1, 16, 31, 4864}) {
    SCOPED_TRACE(width);
    expect_same([](auto& in) { return swiglu(in[0], in[1]); }, [](auto& in) { return swiglu_plain(in[0], in[1]); },
                {random({9, width}, GetParam()) * 4, random({9, width}, GetParam())}, tolerance_of(GetParam()));
  }
}

TEST_P(Elementwise, SwigluOfHalvesIsThatOfTheirCopies) {
  at::NoGradGuard no_grad;
  for (int64_t width : {1, 31, 2047, 4864, 6151})
    for (int64_t rows : {1, 9}) {
      auto both = random({rows, 2 * width}, GetParam()) * 4;
      auto halves = both.chunk(2, 1);
      EXPECT_TRUE(at::equal(swiglu_halves(both), swiglu(halves[0].contiguous(), halves[1].contiguous())))
          << rows << " x " << width;
    }
}

TEST_P(Elementwise, PartsOfAJointProjectionAreNormalizedAndRotated) {
  at::NoGradGuard no_grad;
  constexpr int64_t kHeads = 6, kKvHeads = 2, kDim = 24;
  for (int64_t rows : {1, 5, 200}) {
    auto table = rope_table(at::arange(rows), at::rand({kDim / 2}));
    auto qkv = random({rows, (kHeads + 2 * kKvHeads) * kDim}, GetParam());
    auto parts = qkv.split_with_sizes({kHeads * kDim, kKvHeads * kDim, kKvHeads * kDim}, 1);
    for (bool has_norms : {false, true}) {
      QkNorm norms;
      if (has_norms) norms = {random({kDim}, GetParam()), random({kDim}, GetParam())};
      auto expected = [&](const Tensor& x, const Tensor& weight) {
        auto own = x.contiguous();
        return rope(has_norms ? rms_norm(own.view({rows, -1, kDim}), weight, norms.eps).view(own.sizes()) : own, table);
      };
      const auto [q, k, v] = cpu::split_qkv(qkv, norms, table, kHeads, kKvHeads);
      EXPECT_TRUE(at::equal(q, expected(parts[0], norms.q))) << rows;
      EXPECT_TRUE(at::equal(k, expected(parts[1], norms.k))) << rows;
      EXPECT_TRUE(at::equal(v, parts[2])) << rows;
    }
  }
}

TEST(Swiglu, ExtremeGatesStayFinite) {
  auto gate = at::tensor({-1e30f, -200.0f, -88.0f, 0.0f, 88.0f, 200.0f, 1e30f});
  auto y = swiglu(gate, at::ones_like(gate));
  EXPECT_TRUE(at::allclose(y, at::silu(gate), 1e-6, 1e-30)) << y;
  EXPECT_TRUE(swiglu(at::full({1}, NAN), at::ones({1})).isnan().all().item<bool>());
}

// Every bfloat16 number, NaN and infinity, and the float32 numbers next to it, next to the middle of it and its successor, and in
// that middle.
Tensor floats_between_bfloat16() {
  auto upper = at::arange(-32768, 32768, at::kInt).mul_(65536).unsqueeze(1);
  return (upper + at::tensor({0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF}, at::kInt)).view({-1}).view(at::kFloat);
}

// `round` is called for as many numbers at a time as fill many vectors, a few vectors and a part of one, and only a part.
using RoundSpan = std::function<void(const float* from, c10::BFloat16* to, int64_t count)>;
void expect_rounds_as_libtorch(const RoundSpan& round) {
  const auto x = floats_between_bfloat16(), expected = x.to(at::kBFloat16), nan = x.isnan();
  ASSERT_TRUE(at::equal(expected.isnan(), nan));
  for (int64_t piece : {x.numel(), int64_t{77}, int64_t{3}}) {
    auto found = at::zeros_like(expected);
    for (int64_t i = 0; i < x.numel(); i += piece)
      round(x.const_data_ptr<float>() + i, found.mutable_data_ptr<c10::BFloat16>() + i, std::min(piece, x.numel() - i));
    EXPECT_TRUE(at::equal(found.isnan(), nan)) << piece << " at a time";
    const auto differ = found.view(at::kShort).ne(expected.view(at::kShort)).logical_and_(nan.logical_not()).nonzero();
    if (differ.size(0) == 0) continue;
    const auto bits = x.view(at::kInt)[differ[0][0].item<int64_t>()].item<int32_t>();
    ADD_FAILURE() << fmt::format("{} at a time: {} differ, the first {:#x}", piece, differ.size(0), static_cast<uint32_t>(bits));
  }
}

TEST(Bfloat16, UpdatesRoundAsLibtorchDoes) {
  expect_rounds_as_libtorch([](auto* from, auto* to, int64_t count) { cpu::update_span(from, 1, nullptr, false, to, count); });
}

TEST(Bfloat16, SumsOfPanelsRoundAsLibtorchDoes) {
  expect_rounds_as_libtorch([](auto* from, auto* to, int64_t count) { cpu::store_sums(from, nullptr, to, count); });
  const auto nothing = at::full({floats_between_bfloat16().numel()}, -0.0);  // a bias that changes no number, not even -0
  expect_rounds_as_libtorch(
      [&](auto* from, auto* to, int64_t count) { cpu::store_sums(from, nothing.const_data_ptr<float>(), to, count); });
}

}  // namespace
}  // namespace hone::ops
