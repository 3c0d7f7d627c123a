#include "hone/ops/loss/linear_logps.h"

#include <gtest/gtest.h>

namespace hone::ops {
namespace {

struct LogpsCase {
  Tensor hidden, weight, bias, targets;
  CrossEntropyOptions options;

  explicit LogpsCase(int adapters) {
    const bool adapted = adapters > 0;
    at::manual_seed(3);
    hidden = at::randn({40, 8}).requires_grad_(true);
    weight = at::randn({33, 8}).requires_grad_(!adapted);
    bias = at::randn({33}).requires_grad_(!adapted);
    targets = at::randint(0, 33, {40}, at::kLong);
    targets.slice(0, 5, 11).fill_(kIgnoredTarget);
    options.chunk_bytes = 33 * 4 * 16;  // several chunks
    for (int i = 0; i < adapters; ++i)
      options.adapters.push_back({.adapter = std::to_string(i),
                                  .a = at::randn({2 + i, 8}).requires_grad_(true),
                                  .b = at::randn({33, 2 + i}).requires_grad_(true),
                                  .scale = 0.5});
    if (adapters > 1)  // borders within chunks, rows of nobody, rows without a target
      options.adapter_rows = {{"1", 0, 7}, {"of another layer", 7, 13}, {"0", 13, 38}, {"1", 38, 40}};
  }
  TensorList leaves() const {
    if (options.adapters.empty()) return bias.defined() ? TensorList{hidden, weight, bias} : TensorList{hidden, weight};
    TensorList list{hidden};
    for (const auto& adapter : options.adapters) list.insert(list.end(), {adapter.a, adapter.b});
    return list;
  }
};

// Values, and gradients of a sum in which every position weighs something else.
void expect_follows_composition(LogpsCase c, double scale) {
  c.options.scale = scale;
  auto weights = at::randn({40});
  auto gradients = [&](const TargetLogps& found) {
    (found.logps_t * weights).sum().backward();
    TensorList list;
    for (auto& leaf : c.leaves()) list.push_back(leaf.grad().clone()), leaf.mutable_grad().reset();
    return list;
  };
  auto plain = linear_logps_plain(c.hidden, c.weight, c.bias, c.targets, c.options);
  auto chunked = linear_logps(c.hidden, c.weight, c.bias, c.targets, c.options);
  EXPECT_TRUE(at::allclose(chunked.logps_t, plain.logps_t, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(chunked.mean_logits_t, plain.mean_logits_t, 1e-5, 1e-5));
  EXPECT_FALSE(chunked.mean_logits_t.requires_grad());
  auto wanted = gradients(plain), found = gradients(chunked);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-4, 1e-4)) << i;
}

TEST(LinearLogps, FollowsTheComposition) {
  for (double scale : {1.0, 1 / 0.7}) expect_follows_composition(LogpsCase(0), scale);
}
// Logits of one chunk are kept for the backward pass.
TEST(LinearLogps, FollowsTheCompositionWithoutABias) {
  for (double scale : {1.0, 1 / 0.7})
    for (size_t chunk_bytes : {size_t{33 * 4 * 16}, size_t{1} << 20}) {
      LogpsCase c(0);
      c.bias.reset();
      c.options.chunk_bytes = chunk_bytes;
      expect_follows_composition(c, scale);
    }
}
TEST(LinearLogps, FollowsTheCompositionWithAnAdapter) {
  for (double scale : {1.0, 1 / 0.7}) expect_follows_composition(LogpsCase(1), scale);
}
TEST(LinearLogps, FollowsTheCompositionWithAdaptersOfRows) {
  for (double scale : {1.0, 1 / 0.7}) expect_follows_composition(LogpsCase(2), scale);
}

// Logits are scaled after they were rounded: hidden states that are scaled instead round once more.
TEST(LinearLogps, ATemperatureRoundsNothing) {
  at::manual_seed(5);
  at::NoGradGuard no_grad;
  auto hidden = at::randn({64, 32}).to(at::kBFloat16), weight = at::randn({40, 32}).to(at::kBFloat16);
  auto targets = at::randint(0, 40, {64}, at::kLong);
  auto logits = at::matmul(hidden, weight.t()).to(at::kFloat) / 0.7;
  auto wanted = logits.log_softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1);
  auto found = linear_logps(hidden, weight, {}, targets, {.scale = 1 / 0.7}).logps_t;
  EXPECT_TRUE(at::allclose(found, wanted, 1e-5, 1e-5));
}

TEST(LinearLogps, RecordsNothingWithoutGradients) {
  LogpsCase c(0);
  at::NoGradGuard no_grad;
  EXPECT_FALSE(linear_logps(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t.requires_grad());
}

}  // namespace
}  // namespace hone::ops
