// Rounding to few bits: GPTQ and AWQ lose less of a layer's outputs than rounding to the nearest, and AWQ's scales change nothing
// by themselves.
#include <gtest/gtest.h>

#include "hone/model/decoder.h"
#include "hone/tuner/quantize/awq.h"
#include "hone/tuner/quantize/gptq.h"

namespace hone::tuner {
namespace {

// Inputs of which a few carry most, and which depend on each other: what layers of language models see.
Tensor uneven_inputs(int64_t tokens, int64_t width) {
  auto mixed = at::matmul(at::randn({tokens, width / 4}), at::randn({width / 4, width})) + 0.3 * at::randn({tokens, width});
  auto sizes = at::ones({width});
  sizes.slice(0, 0, width, 17).fill_(8);
  return mixed * sizes;
}

double output_change(const Tensor& weight, const Tensor& rounded, const Tensor& inputs) {
  return at::matmul(inputs, (rounded - weight).t()).square().sum().item<double>();
}

TEST(Quantize, GridsSpanTheirValues) {
  auto values = at::tensor({-1.0f, 0.0f, 0.5f, 2.0f}).view({1, 4});
  auto rounded = round_to_nearest(values, {.bits = 8, .group = -1});
  EXPECT_LT((rounded.restored() - values).abs().max().item<double>(), 3.0 / 255);
  EXPECT_EQ(rounded.scales.sizes(), at::IntArrayRef({1, 1}));
  auto symmetric = round_to_nearest(values, {.bits = 4, .group = 2, .symmetric = true});
  EXPECT_TRUE((symmetric.zeros == 8).all().item<bool>());
  EXPECT_EQ(round_to_nearest(at::zeros({2, 4}), {.group = -1}).restored().abs().max().item<float>(), 0);
}

TEST(Quantize, GptqMakesUpForWhatItLoses) {
  at::manual_seed(1);
  auto weight = at::randn({48, 256}), inputs = uneven_inputs(512, 256);
  auto products = at::matmul(inputs.t(), inputs);
  for (int64_t group : {64, 128, -1}) {
    GptqConfig config{.grid = {.bits = 4, .group = group, .symmetric = true}};
    double nearest = output_change(weight, round_to_nearest(weight, config.grid).restored(), inputs);
    EXPECT_LT(output_change(weight, gptq_quantize(weight, products, config).restored(), inputs), 0.5 * nearest) << group;
  }
}

TEST(Quantize, GptqSurvivesInputsThatNeverCame) {
  auto weight = at::randn({8, 64}), inputs = at::randn({16, 64});
  inputs.select(1, 5).zero_();
  auto rounded = gptq_quantize(weight, at::matmul(inputs.t(), inputs), {.grid = {.bits = 4, .group = 32, .symmetric = true}});
  EXPECT_TRUE(rounded.restored().isfinite().all().item<bool>());
  EXPECT_THROW(gptq_quantize(weight, at::full({64, 64}, NAN), {.grid = {.bits = 4, .group = 32}}), UserError);
}

TEST(Quantize, CutRangesLoseNoMoreThanWholeOnes) {
  at::manual_seed(2);
  auto weight = at::randn({32, 128}), inputs = uneven_inputs(256, 128);
  weight[3][7] = 9;  // a range that one value stretches
  GroupQuantConfig grid{.bits = 4, .group = 32};
  CalibrationStats seen{at::matmul(inputs.t(), inputs), inputs.abs().sum(0), 256};
  EXPECT_LT(output_change(weight, quantize_clipped(weight, seen, grid).restored(), inputs),
            output_change(weight, round_to_nearest(weight, grid).restored(), inputs));
}

TEST(Quantize, AwqsScalesChangeNothingButWhatRoundingLoses) {
  model::DecoderConfig config;
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = 50, config.hidden_size = 64, config.intermediate_size = 128, config.layers = 1,
  config.max_position_embeddings = 64;
  config.attention = {.heads = 4, .kv_heads = 4, .head_dim = 16};
  config.sliding_windows = {0};
  auto model = model::CausalLM::random(config, 3);
  model->embedding().weight.mul_(20).slice(1, 0, 64, 13).mul_(6);
  model::ForwardInput input{at::randint(0, 50, {40}, at::kLong), at::arange(40), {}};
  input.segments.append(40);
  BlockwiseCalibration walk(*model, {input});
  auto& block = walk.block();
  auto layers = block.module().linears();
  auto seen = walk.collect(layers);
  auto before = model->hidden_states(input);
  double nearest = 0, scaled_error = 0;
  GroupQuantConfig grid{.bits = 4, .group = 32};
  for (auto* layer : layers) {
    auto change = round_to_nearest(layer->weight, grid).restored() - layer->weight;
    nearest += (at::matmul(change, seen[layer].hessian) * change).sum().item<double>();
  }
  auto scaled = apply_awq_scales(block, seen, grid);
  EXPECT_TRUE(at::allclose(model->hidden_states(input), before, 1e-3, 1e-4));
  for (auto* layer : layers) {
    auto change = quantize_clipped(layer->weight, scaled[layer], grid).restored() - layer->weight;
    scaled_error += (at::matmul(change, scaled[layer].hessian) * change).sum().item<double>();
  }
  EXPECT_LT(scaled_error, 0.8 * nearest);
}

}  // namespace
}  // namespace hone::tuner
