// Kernels of training on an NVIDIA GPU beside their definitions computed in float32. Skipped where there is no GPU or nothing was
// built for one.
#include "hone/ops/cuda/training.h"

#include "hone/ops/attention/even_attention.h"
#include "hone/ops/attention/qk_norm_rope.h"
#include "hone/ops/column_sums.h"
#include "hone/ops/cuda/adam.h"
#include "hone/ops/cuda/column_sums.h"
#include "hone/ops/cuda/float8.h"
#include "hone/ops/cuda/gradient_norm.h"
#include "hone/ops/linear/grouped_lora.h"
#include "hone/ops/linear/joint_linear.h"
#include "hone/ops/linear/rounded_low_rank.h"
#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/swiglu.h"
#include "ops/gpu_testing.h"

namespace hone::ops {
namespace {

// x, then weight, bias, a and b of each layer.
TensorList gpu_layers(std::initializer_list<int64_t> widths) {
  TensorList list{on_gpu({kGpuTokens, kGpuIn})};
  for (int64_t width : widths)
    list.insert(list.end(), {on_gpu({width, kGpuIn}, at::kBFloat16, 0.1), on_gpu({width}),
                             on_gpu({kGpuRank, kGpuIn}, at::kFloat, 0.1), on_gpu({width, kGpuRank}, at::kFloat, 0.1)});
  return list;
}

JointLayers joint_of(const TensorList& in) {
  JointLayers joint;
  TensorList weights, biases;
  for (size_t i = 1; i < in.size(); i += 4) {
    joint.layers.push_back({in[i], in[i + 1], {LoraWeights{.a = in[i + 2], .b = in[i + 3], .scale = 1.5}}});
    weights.push_back(in[i].detach()), biases.push_back(in[i + 1].detach());
  }
  joint.weight = at::cat(weights), joint.bias = at::cat(biases);
  return joint;
}

RopeTable gpu_table(int64_t head_dim) {
  auto half = at::arange(head_dim / 2, at::TensorOptions(at::kFloat).device(at::kCUDA));
  return rope_table(at::arange(kGpuTokens, at::TensorOptions(at::kLong).device(at::kCUDA)),
                    at::pow(10000.0, -half / static_cast<double>(head_dim / 2)));
}

TEST_F(GpuTraining, LoraMatchesItsDefinition) {
  auto plain = [](auto& in) {
    return TensorList{lora_linear_plain(in[0], in[1], in[2], joint_of(in).layers[0].adapters, false)};
  };
  expect_near_on_gpu(
      [](auto& in) { return TensorList{lora_linear(in[0], in[1], in[2], joint_of(in).layers[0].adapters, false)}; }, plain,
      gpu_layers({96}));
}

TEST_F(GpuTraining, JointLayersMatchTheirDefinition) {
  expect_near_on_gpu([](auto& in) { return joint_linear(in[0], joint_of(in), false); },
                     [](auto& in) { return joint_linear_plain(in[0], joint_of(in), false); }, gpu_layers({256, 256}));
}

TEST_F(GpuTraining, JointLayersRotateQueriesAndKeys) {
  auto rope = gpu_table(64);
  expect_near_on_gpu([&](auto& in) { return joint_linear(in[0], joint_of(in), false, &rope); },
                     [&](auto& in) { return joint_linear_plain(in[0], joint_of(in), false, &rope); }, gpu_layers({256, 64, 64}));
}

TEST_F(GpuTraining, RotationMatchesItsDefinition) {
  auto rope_of = gpu_table(32);
  expect_near_on_gpu([&](auto& in) { return TensorList{rope(in[0], rope_of)}; },
                     [&](auto& in) { return TensorList{rope_plain(in[0], rope_of)}; }, {on_gpu({kGpuTokens, 128})});
}

TEST_F(GpuTraining, SwigluLinearMatchesItsDefinition) {
  TensorList inputs{on_gpu({kGpuTokens, kGpuIn}), on_gpu({kGpuTokens, kGpuIn}), on_gpu({64, kGpuIn}),
                    on_gpu({kGpuRank, kGpuIn}, at::kFloat, 0.1), on_gpu({64, kGpuRank}, at::kFloat, 0.1)};
  auto adapters = [](auto& in) { return std::vector<LoraWeights>{{.a = in[3], .b = in[4], .scale = 2}}; };
  expect_near_on_gpu([&](auto& in) { return TensorList{swiglu_linear(in[0], in[1], in[2], {}, adapters(in), false)}; },
                     [&](auto& in) { return TensorList{swiglu_linear_plain(in[0], in[1], in[2], {}, adapters(in), false)}; },
                     inputs);
}

// Gate and up whose updates are left to the operator that reads them, as a block computes its MLP.
TEST_F(GpuTraining, GatedMlpMatchesItsDefinition) {
  auto inputs = gpu_layers({256, 256});
  inputs.insert(inputs.end(), {on_gpu({64, 256}, at::kBFloat16, 0.1), on_gpu({kGpuRank, 256}, at::kFloat, 0.1),
                               on_gpu({64, kGpuRank}, at::kFloat, 0.1)});
  auto layers = [](const TensorList& in) { return joint_of(TensorList(in.begin(), in.begin() + 9)); };
  auto adapters = [](const TensorList& in) { return std::vector<LoraWeights>{{.a = in[10], .b = in[11], .scale = 2}}; };
  auto fused = [&](const TensorList& in) {
    cuda::GateUpdates updates;
    auto parts = joint_gate_up(in[0], layers(in), false, updates);
    EXPECT_TRUE(updates.defined());
    return TensorList{swiglu_linear(parts[0], parts[1], in[9], {}, adapters(in), false, updates)};
  };
  auto plain = [&](const TensorList& in) {
    auto parts = joint_linear_plain(in[0], layers(in), false);
    return TensorList{swiglu_linear_plain(parts[0], parts[1], in[9], {}, adapters(in), false)};
  };
  expect_near_on_gpu(fused, plain, inputs);
}

// More rows than a grid has blocks in its second direction.
TEST_F(GpuTraining, SwigluOfManyRows) {
  auto gate = on_gpu({70000, 16}), up = on_gpu({70000, 16});
  EXPECT_LT(gpu_distance(swiglu(gate, up), swiglu_plain(gate.to(at::kFloat), up.to(at::kFloat))), 1e-2);
}

TEST_F(GpuTraining, RowsBecomeFloat8) {
  for (int64_t width : {16, 2048, 3584, 6144, 8192, 18944, 37888, 60000}) {
    auto x = on_gpu({37, width});
    x.select(0, 3).zero_();
    const auto rows = cuda::float8_rows(x);
    const auto scales = x.abs().amax(1, true).to(at::kFloat).clamp_min(1e-12) / 448;
    EXPECT_LT(gpu_distance(rows.scales, scales), 1e-6) << width;
    const auto expected = (x.to(at::kFloat) * scales.reciprocal()).to(at::kFloat8_e4m3fn).to(at::kFloat);
    EXPECT_LT(gpu_distance(rows.values.to(at::kFloat), expected), 1e-2) << width;  // halfway cases fall either way
    EXPECT_LT(gpu_distance(rows.values.to(at::kFloat) * rows.scales, x), 3e-2) << width;
  }
}

// What an element of 3 bits after the point gives: each factor is off by 2.6 percent of itself, and so is a sum of such products.
constexpr double kFloat8Error = 5e-2;

TEST_F(GpuTraining, Float8ProductsAreNearTheExactOnes) {
  if (!has_float8_products(at::Device(at::kCUDA, 0))) GTEST_SKIP() << "this GPU has no 8-bit products";
  auto rounded = [](const TensorList& in) {
    auto joint = joint_of(in);
    joint.float8 = float8_weight(joint.weight);
    return joint;
  };
  expect_near_on_gpu([&](auto& in) { return joint_linear(in[0], rounded(in), false); },
                     [](auto& in) { return joint_linear_plain(in[0], joint_of(in), false); }, gpu_layers({256, 256}),
                     kFloat8Error);
  auto adapters = [](auto& in) { return joint_of(in).layers[0].adapters; };
  expect_near_on_gpu(
      [&](auto& in) { return TensorList{lora_linear(in[0], in[1], in[2], adapters(in), false, float8_weight(in[1]))}; },
      [&](auto& in) { return TensorList{lora_linear_plain(in[0], in[1], in[2], adapters(in), false)}; }, gpu_layers({96}),
      kFloat8Error);
}

TEST_F(GpuTraining, Float8PartsAreThoseOfTheWhole) {
  if (!has_float8_products(at::Device(at::kCUDA, 0))) GTEST_SKIP() << "this GPU has no 8-bit products";
  const auto weight = on_gpu({96, kGpuIn}, at::kBFloat16, 0.1), x = on_gpu({kGpuTokens, kGpuIn}), dy = on_gpu({kGpuTokens, 64});
  const auto whole = float8_weight(weight), part = float8_slice(whole, 32, 64);
  const auto own = weight.narrow(0, 32, 64);
  EXPECT_TRUE(base_product(x, own, part, {}).equal(base_product(x, weight, whole, {}).narrow(1, 32, 64)));
  EXPECT_LT(gpu_distance(base_gradient(dy, own, part), at::mm(dy.to(at::kFloat), own.to(at::kFloat))), kFloat8Error);
}

TEST_F(GpuTraining, SwigluTakesADroppedUpdateAlong) {
  auto gate = on_gpu({kGpuTokens, kGpuIn}), up = on_gpu({kGpuTokens, kGpuIn}), dy = on_gpu({kGpuTokens, kGpuIn}),
       p = on_gpu({kGpuTokens, kGpuRank}), factor = on_gpu({kGpuRank, kGpuIn});
  auto draw = cuda::drop(dy, 0.25).draw;
  auto whole = dy.clone();
  cuda::add_dropped_updates_(whole, p, factor, 0.25, {draw});
  auto run = [&](const Tensor& gradient, const cuda::LowRankUpdate& update) {
    TensorList found{at::empty_like(gate), at::empty_like(gate), at::empty_like(gate)};
    cuda::swiglu_backward(gradient, gate, up, found[0], found[1], found[2], update);
    return found;
  };
  auto found = run(dy, {p, factor, 0.25, draw}), expected = run(whole, {});
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(gpu_distance(found[i], expected[i]), 1e-3) << i;
}

TEST_F(GpuTraining, AttentionOfOneLengthMatchesItsDefinition) {
  CuSeqlens segments;
  for (int i = 0; i < 2; ++i) segments.append(256);
  auto metadata = attention_metadata(segments, at::kCUDA);
  AttentionShape shape{4, 2, 64, 0.125};
  EXPECT_TRUE(supports_even(on_gpu({512, 256}), metadata, shape));
  expect_near_on_gpu([&](auto& in) { return TensorList{attention(in[0], in[1], in[2], metadata, shape)}; },
                     [&](auto& in) { return TensorList{attention_plain(in[0], in[1], in[2], metadata, shape)}; },
                     {on_gpu({512, 256}), on_gpu({512, 128}), on_gpu({512, 128})});
}

TEST_F(GpuTraining, UpdatesAreAddedAsProductsAre) {
  for (int64_t rank : {8, 16, 24, 32}) {
    auto wide = on_gpu({kGpuTokens, 512}), y = wide.narrow(1, 128, 256), p = on_gpu({kGpuTokens, 2 * rank}).narrow(1, rank, rank);
    auto down = on_gpu({256, rank}), across = on_gpu({rank, 256});
    auto expected = y.to(at::kFloat) + p.to(at::kFloat).mm(down.to(at::kFloat).t()), before = wide.narrow(1, 0, 128).clone();
    ASSERT_TRUE(cuda::supports_low_rank_add(y, rank));
    cuda::low_rank_add_(y, p, down, false);
    EXPECT_LT(gpu_distance(y, expected), 5e-3);
    expected = y.to(at::kFloat) + p.to(at::kFloat).mm(across.to(at::kFloat));
    cuda::low_rank_add_(y, p, across, true);
    EXPECT_LT(gpu_distance(y, expected), 5e-3);
    EXPECT_TRUE(wide.narrow(1, 0, 128).equal(before));
  }
}

// Parameters and gradients of these types; the numbers that both start from are the same.
struct MomentTypes {
  at::ScalarType first, second;
};

void expect_adam_as_torchs(at::ScalarType type, at::ScalarType of_gradients, MomentTypes moments, double tolerance) {
  TensorList parameters, gradients, first, second;
  for (int64_t size : {1000, 8, 7, 40000}) {
    parameters.push_back(on_gpu({size}, type)), gradients.push_back(on_gpu({size}, of_gradients));
    first.push_back(on_gpu({size}, moments.first)), second.push_back(on_gpu({size}, moments.second).abs());
  }
  auto copies = [](const TensorList& from) {
    TensorList list;
    for (const auto& each : from) list.push_back(each.to(at::kFloat, false, true));
    return list;
  };
  auto p = copies(parameters), m = copies(first), v = copies(second), g = copies(gradients);
  for (auto& each : g) each.mul_(0.5);
  TensorList steps(p.size(), at::full({}, 3.0, p[0].options()));
  at::_fused_adamw_(p, g, m, v, {}, steps, 1e-2, 0.9, 0.99, 0.1, 1e-8, false, false);
  TensorList published{on_gpu({1000}), {}, on_gpu({7}), {}};
  const cuda::AdamStep how{1e-2, 0.9, 0.99, 1e-8, 0.1, true, 3};
  const auto half = at::full({}, 0.5, p[0].options()), finite = at::full({}, 7.0, p[0].options());
  const auto before = parameters.back().clone();
  cuda::adam_(parameters, gradients, first, second, published, {half, finite / 0}, how);
  EXPECT_TRUE(parameters.back().equal(before));  // what is not finite changes nothing
  cuda::adam_(parameters, gradients, first, second, published, {half, finite}, how);
  for (size_t i = 0; i < p.size(); ++i) {
    if (published[i].defined()) {
      EXPECT_TRUE(published[i].equal(parameters[i].to(at::kBFloat16)));
    }
    EXPECT_LT(gpu_distance(parameters[i], p[i]), tolerance);
    EXPECT_LT(gpu_distance(first[i], m[i]), moments.first == at::kBFloat16 ? 4e-3 : tolerance);
    EXPECT_LT(gpu_distance(second[i], v[i]), moments.second == at::kBFloat16 ? 4e-3 : tolerance);
  }
}

TEST_F(GpuTraining, AdamStepsAsTorchs) {
  for (auto of_gradients : {at::kFloat, at::kBFloat16})
    for (auto first : {at::kFloat, at::kBFloat16})
      for (auto second : {at::kFloat, at::kBFloat16}) expect_adam_as_torchs(at::kFloat, of_gradients, {first, second}, 1e-6);
  expect_adam_as_torchs(at::kBFloat16, at::kBFloat16, {at::kBFloat16, at::kBFloat16}, 4e-3);  // rounded once
}

TEST_F(GpuTraining, NormMatchesItsDefinition) {
  expect_near_on_gpu([](auto& in) { return TensorList{rms_norm(in[0], in[1], 1e-6)}; },
                     [](auto& in) { return TensorList{rms_norm_plain(in[0], in[1], 1e-6)}; },
                     {on_gpu({kGpuTokens, kGpuIn}), on_gpu({kGpuIn})});
}

TEST_F(GpuTraining, SumAndNormMatchTheirDefinition) {
  for (int64_t width : {512, 1536, 3584})
    expect_near_on_gpu(
        [](auto& in) {
          auto found = add_rms_norm(in[0], in[1], in[2], 1e-6);
          return TensorList{found.sum, found.normed};
        },
        [](auto& in) {
          auto found = add_rms_norm_plain(in[0], in[1], in[2], 1e-6);
          return TensorList{found.sum, found.normed};
        },
        {on_gpu({kGpuTokens, width}), on_gpu({kGpuTokens, width}), on_gpu({width})});
}

TEST_F(GpuTraining, DroppedUpdatesOfSeveralTermsAreAdded) {
  for (int64_t rank : {8, 16})
    for (size_t terms : {1, 2, 3}) {
      auto y = on_gpu({kGpuTokens, 160}), p = on_gpu({kGpuTokens, rank * static_cast<int64_t>(terms)}),
           factor = on_gpu({p.size(1), 160});
      auto expected = y.to(at::kFloat);
      TensorList draws;
      for (size_t i = 0; i < terms; ++i) {
        auto dropped = cuda::drop(at::ones_like(y), 0.25);
        const int64_t begin = static_cast<int64_t>(i) * rank;
        draws.push_back(dropped.draw);
        expected += at::where(dropped.values != 0, 1 / 0.75, 0.0) *
                    p.narrow(1, begin, rank).to(at::kFloat).mm(factor.narrow(0, begin, rank).to(at::kFloat));
      }
      ASSERT_TRUE(cuda::supports_dropped_add(y, rank, static_cast<int64_t>(terms)));
      cuda::add_dropped_updates_(y, p, factor, 0.25, draws);
      EXPECT_LT(gpu_distance(y, expected), 5e-3);
    }
}

TEST_F(GpuTraining, DropoutDrawsOnceAndTellsAgain) {
  auto x = on_gpu({512, 1024});
  auto first = cuda::drop(x, 0.25), second = cuda::drop(x, 0.25);
  auto kept = (first.values != 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 0.75, 0.005);
  EXPECT_FALSE(first.values.equal(second.values));
  EXPECT_TRUE(cuda::drop_again(x, 0.25, first.draw).equal(first.values));
  EXPECT_LT(gpu_distance(first.values, at::where(first.values != 0, x.to(at::kFloat) / 0.75, 0.0)), 5e-3);
  auto sum = x.clone();
  cuda::add_dropped_(sum, x, 0.25, first.draw);
  EXPECT_LT(gpu_distance(sum, x.to(at::kFloat) + first.values.to(at::kFloat)), 5e-3);
  auto half = (first.values.narrow(1, 0, 512) != 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(half, 0.75, 0.01);
}

// The generator's state decides what is dropped, and a step that begins with it again drops the same.
TEST_F(GpuTraining, DroppedUpdatesHaveTheirOwnGradients) {
  auto in = gpu_layers({96});
  auto generator = at::globalContext().defaultGenerator(at::Device(at::kCUDA));
  auto state = generator.get_state();
  auto first = cuda::drop(in[0], 0.1);
  TensorList leaves;
  for (auto& each : in) leaves.push_back(each.detach().clone().requires_grad_());
  generator.set_state(state);
  std::vector<LoraWeights> adapters{{.a = leaves[3], .b = leaves[4], .scale = 2, .dropout = 0.1}};
  auto y = lora_linear(leaves[0], leaves[1], leaves[2], adapters, true);
  auto dy = on_gpu({kGpuTokens, 96});
  y.backward(dy);
  auto x = in[0].to(at::kFloat), keep = at::where(first.values != 0, 1 / 0.9, 0.0).to(at::kFloat), a = in[3], b = in[4],
       d = dy.to(at::kFloat);
  auto projected = (x * keep).mm(a.t());
  EXPECT_LT(gpu_distance(y, x.mm(in[1].to(at::kFloat).t()) + in[2].to(at::kFloat) + 2 * projected.mm(b.t())), 1e-2);
  EXPECT_LT(gpu_distance(leaves[4].grad(), 2 * d.t().mm(projected)), 1e-2);
  EXPECT_LT(gpu_distance(leaves[3].grad(), 2 * d.mm(b).t().mm(x * keep)), 1e-2);
  EXPECT_LT(gpu_distance(leaves[0].grad(), d.mm(in[1].to(at::kFloat)) + 2 * d.mm(b).mm(a) * keep), 1e-2);
}

TEST_F(GpuTraining, LossMatchesItsDefinition) {
  constexpr int64_t kGpuVocabulary = 1000;
  auto options = at::TensorOptions(at::kLong).device(at::kCUDA);
  for (double labelled : {1.0, 0.95, 0.3, 0.0}) {
    auto targets = at::randint(kGpuVocabulary, {kGpuTokens}, options);
    auto ignored = at::rand({kGpuTokens}, options.dtype(at::kFloat)) >= labelled;
    targets.masked_fill_(ignored, kIgnoredTarget);
    CrossEntropyOptions how{.weights_t = at::rand({kGpuTokens}, options.dtype(at::kFloat)) + 0.5,
                            .label_smoothing = 0.1,
                            .target_count = (targets != kIgnoredTarget).sum().item<int64_t>()};
    TensorList inputs{on_gpu({kGpuTokens, kGpuIn}), on_gpu({kGpuVocabulary, kGpuIn}, at::kBFloat16, 0.1)};
    for (size_t chunk : {size_t{1} << 30, size_t{1} << 17}) {
      how.chunk_bytes = chunk;
      auto run = [&](auto op) {
        return [&, op](const TensorList& in) { return TensorList{op(in[0], in[1], Tensor(), targets, how).sum}; };
      };
      expect_near_on_gpu(run(linear_cross_entropy), run(linear_cross_entropy_plain), inputs);
    }
    auto found = linear_cross_entropy(inputs[0], inputs[1], {}, targets, how),
         expected = linear_cross_entropy_plain(inputs[0], inputs[1], {}, targets, how);
    EXPECT_NEAR(found.correct.item<double>(), expected.correct.item<double>(), 2) << labelled;
  }
}

// A captured pass computes more rows than have a target, whatever the head: 1,001 tokens are too odd for the kernel.
TEST_F(GpuTraining, LossOfPaddedRowsMatchesItsDefinition) {
  for (int64_t vocabulary : {1000, 1001}) {
    auto targets = at::randint(vocabulary, {kGpuTokens}, at::TensorOptions(at::kLong).device(at::kCUDA));
    targets.narrow(0, 0, 170).fill_(kIgnoredTarget);
    const TensorList inputs{on_gpu({kGpuTokens, kGpuIn}), on_gpu({vocabulary, kGpuIn}, at::kBFloat16, 0.1),
                            on_gpu({kGpuRank, kGpuIn}, at::kFloat, 0.1), on_gpu({vocabulary, kGpuRank}, at::kFloat, 0.1)};
    for (bool adapted : {false, true}) {
      auto run = [&](auto op) {
        return [&, op](const TensorList& in) {
          CrossEntropyOptions how{.label_smoothing = 0.1, .target_count = bound_of_targets(30, kGpuTokens)};
          if (adapted) how.adapters = {LoraWeights{.a = in[2], .b = in[3], .scale = 1.5}};
          return TensorList{op(in[0], in[1], Tensor(), targets, how).sum};
        };
      };
      ASSERT_GT(bound_of_targets(30, kGpuTokens), 30);
      expect_near_on_gpu(run(linear_cross_entropy), run(linear_cross_entropy_plain), inputs);
    }
  }
}

// Vocabularies of real models.
TEST_F(GpuTraining, LossOfWideRowsMatchesItsDefinition) {
  for (auto [type, vocabulary] :
       {std::pair(at::kBFloat16, 32000), {at::kBFloat16, 151936}, {at::kFloat, 151936}, {at::kBFloat16, 1000008}}) {
    constexpr int64_t kRows = 300;
    auto logits = on_gpu({kRows, vocabulary}, type, 3);
    auto options = at::TensorOptions(at::kFloat).device(at::kCUDA);
    auto targets = at::randint(vocabulary, {kRows}, options.dtype(at::kLong));
    targets.narrow(0, 7, 20).fill_(kIgnoredTarget);
    for (int64_t row = 40; row < 60; ++row) {  // the largest, or the second of two that are
      const auto target = targets[row].item<int64_t>();
      logits[row][target] = 25;
      if (row % 2) logits[row][target / 2] = 25;
    }
    auto weights = at::rand({kRows}, options) + 0.5, losses = at::empty({kRows}, options),
         correct = at::empty({kRows}, options.dtype(at::kLong));
    auto wide = logits.to(at::kDouble).requires_grad_();
    auto each = at::cross_entropy_loss(wide, targets, {}, at::Reduction::None, kIgnoredTarget, 0.1);
    (each * weights).sum().backward();
    for (bool into_gradient : {false, true}) {
      cuda::cross_entropy_rows(logits, targets, weights, 0.1, into_gradient, losses, correct);
      EXPECT_LT(gpu_distance(losses, (each * weights).detach()), 1e-5) << vocabulary;
      EXPECT_TRUE(at::equal(correct, (wide.argmax(1) == targets).to(at::kLong))) << vocabulary;
    }
    EXPECT_LT(gpu_distance(logits, wide.grad()), type == at::kFloat ? 1e-5 : 3e-3) << vocabulary;
  }
}

TEST_F(GpuTraining, NormOfManyTensorsMatchesItsDefinition) {
  TensorList tensors{on_gpu({3, 7}, at::kFloat), on_gpu({0, 5}), on_gpu({70001}, at::kHalf), on_gpu({300, 512}).t(),
                     on_gpu({40000, 16}).narrow(0, 1, 39999).flatten().narrow(0, 1, 600000)};
  for (int64_t i = 0; i < 1500; ++i) tensors.push_back(on_gpu({1 + i % 37}, i % 2 ? at::kFloat : at::kBFloat16));
  auto expected = at::zeros({}, at::TensorOptions(at::kDouble).device(at::kCUDA));
  for (const auto& tensor : tensors) expected += tensor.to(at::kDouble).square().sum();
  ASSERT_TRUE(cuda::supports_norm_of_all(tensors));
  const auto found = cuda::norm_of_all(tensors);
  EXPECT_EQ(found.scalar_type(), at::kFloat);
  EXPECT_LT(gpu_distance(found, expected.sqrt()), 1e-6);
  EXPECT_TRUE(at::equal(found, cuda::norm_of_all(tensors)));
  tensors[2][5] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(cuda::norm_of_all(tensors).item<float>()));
}

TEST_F(GpuTraining, ColumnSumsMatchTheirDefinition) {
  for (auto type : {at::kBFloat16, at::kHalf, at::kFloat})
    for (auto [rows, width] : {std::pair<int64_t, int64_t>(1, 8), {127, 264}, {129, 1536}, {5000, 2048}}) {
      auto x = on_gpu({rows, width + 8}, type).narrow(1, 8, width);
      const auto found = column_sums(x), expected = x.to(at::kDouble).sum(0);
      EXPECT_EQ(found.scalar_type(), type);
      const double tolerance = type == at::kFloat ? 1e-5 : 4e-3;
      EXPECT_LT(gpu_distance(found, expected), tolerance) << rows << " x " << width;
      const auto of_floats = cuda::total_of_sums(x.to(at::kFloat).contiguous(), type);
      EXPECT_EQ(of_floats.scalar_type(), type);
      EXPECT_LT(gpu_distance(of_floats, expected), tolerance) << rows << " x " << width;
    }
}

// Ranges that differ in length, an adapter that comes twice, scales and ranks of their own, and rows of no adapter.
TEST_F(GpuTraining, GroupedLoraMatchesItsDefinition) {
  constexpr int64_t kOutputs = 96;
  const LoraMapping rows{{"0", 0, 1}, {"1", 1, 70}, {"2", 70, 130}, {"0", 130, 180}, {"none", 180, kGpuTokens}};
  for (const auto& ranks : {std::vector<int64_t>{kGpuRank, kGpuRank, kGpuRank}, std::vector<int64_t>{4, kGpuRank, 24}}) {
    TensorList inputs{on_gpu({kGpuTokens, kGpuIn})};
    for (auto rank : ranks)
      inputs.insert(inputs.end(), {on_gpu({rank, kGpuIn}, at::kFloat, 0.1), on_gpu({kOutputs, rank}, at::kFloat, 0.1)});
    auto run = [&](auto op) {
      return [&, op](const TensorList& in) {
        std::vector<LoraWeights> adapters;
        for (size_t i = 0; i < ranks.size(); ++i)
          adapters.push_back(
              {.adapter = std::to_string(i), .a = in[1 + 2 * i], .b = in[2 + 2 * i], .scale = 0.5 + static_cast<double>(i)});
        return TensorList{op(in[0], adapters, rows, kOutputs)};
      };
    };
    expect_near_on_gpu(run(grouped_lora), run(grouped_lora_plain), inputs);
    EXPECT_EQ(run(grouped_lora)(inputs)[0].scalar_type(), at::kBFloat16) << "not in one product";
  }
}

// Queries and keys as slices of one tensor, as a joint projection gives them.
TEST_F(GpuTraining, HeadsAreNormalizedAndRotated) {
  for (int64_t head_dim : {64, 128, 256}) {
    const int64_t q_width = 4 * head_dim, k_width = 2 * head_dim;
    auto run = [&](auto op) {
      return [&, op](const TensorList& in) {
        const auto found =
            op({in[0].narrow(1, 0, q_width), in[0].narrow(1, q_width, k_width), in[0].narrow(1, q_width + k_width, k_width)},
               {in[1], in[2], 1e-6}, gpu_table(head_dim));
        return TensorList{found.q, found.k, found.v};
      };
    };
    expect_near_on_gpu(run(qk_norm_rope), run(qk_norm_rope_plain),
                       {on_gpu({kGpuTokens, q_width + 2 * k_width}), on_gpu({head_dim}), on_gpu({head_dim})});
  }
}

}  // namespace
}  // namespace hone::ops
