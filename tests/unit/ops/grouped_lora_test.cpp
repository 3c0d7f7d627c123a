#include "hone/ops/linear/grouped_lora.h"

#include <gtest/gtest.h>

#include <limits>

#include "hone/device/autograd.h"

namespace hone::ops {
namespace {

struct GroupedCase {
  Tensor x;
  std::vector<LoraWeights> adapters;
  LoraMapping rows;

  TensorList leaves() const {
    TensorList list{x};
    for (const auto& adapter : adapters) list.insert(list.end(), {adapter.a, adapter.b});
    return list;
  }
};

// Ranks and lengths that differ, and an adapter that comes twice.
GroupedCase grouped_case(bool with_gaps, const std::vector<int64_t>& ranks = {1, 8, 19}) {
  at::manual_seed(7);
  GroupedCase c{.x = at::randn({23, 12}).requires_grad_(true), .adapters = {}, .rows = {}};
  for (int i = 0; i < 3; ++i)
    c.adapters.push_back({.adapter = std::to_string(i),
                          .a = at::randn({ranks[static_cast<size_t>(i)], 12}).requires_grad_(true),
                          .b = at::randn({9, ranks[static_cast<size_t>(i)]}).requires_grad_(true),
                          .scale = 0.5 + i});
  c.rows = {{"2", 0, 1}, {with_gaps ? "of no adapter" : "1", 1, 9}, {"0", 9, 14}, {"2", 14, 23}};
  return c;
}

void expect_follows_plain(decltype(&grouped_lora) op, GroupedCase c) {
  const auto weights = at::randn({23, 9});
  auto gradients = [&](const Tensor& y) {
    (y * weights).sum().backward();
    TensorList list;
    for (auto& leaf : c.leaves()) {
      list.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::zeros_like(leaf));
      leaf.mutable_grad().reset();
    }
    return list;
  };
  const auto plain = grouped_lora_plain(c.x, c.adapters, c.rows, 9), grouped = op(c.x, c.adapters, c.rows, 9);
  EXPECT_TRUE(at::allclose(grouped, plain, 1e-5, 1e-5));
  {
    at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(op(c.x, c.adapters, c.rows, 9), grouped));
  }
  const auto wanted = gradients(plain), found = gradients(grouped);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-4, 1e-5)) << i;
}

TEST(GroupedLora, FollowsTheComposition) { expect_follows_plain(grouped_lora, grouped_case(false)); }
TEST(GroupedLora, LeavesRowsOfNoAdapterAlone) { expect_follows_plain(grouped_lora, grouped_case(true)); }
// One product for all, as GPUs have it: ranks are padded to a common one.
TEST(GroupedLora, PaddedRanksFollowTheComposition) { expect_follows_plain(padded_grouped_lora, grouped_case(false)); }
TEST(GroupedLora, PaddingLeavesRowsOfNoAdapterAlone) { expect_follows_plain(padded_grouped_lora, grouped_case(true)); }
TEST(GroupedLora, EqualRanksNeedNoPadding) { expect_follows_plain(padded_grouped_lora, grouped_case(false, {8, 8, 8})); }

// A layer's own product, whose gradient passes the updates too.
Tensor base_of(const Tensor& x, int64_t outputs) { return at::linear(x, at::arange(outputs * 12).view({outputs, 12}) * 0.01F); }
Tensor composed_with_base(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  return base_of(x, outputs) + grouped_lora(x, adapters, rows, outputs);
}
Tensor added_to_base(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  return add_accumulating_grouped_lora(base_of(x, outputs), x, adapters, rows);
}
Tensor added_to_zeros(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  return add_accumulating_grouped_lora(at::zeros({x.size(0), outputs}), x, adapters, rows);
}

// Gradients are added to those that are there, also where x needs none, as in the first layer of a model.
TEST(GroupedLora, AccumulatesWhatAutogradWould) {
  for (bool x_has_gradient : {true, false}) {
    auto c = grouped_case(false);
    c.rows = {{"2", 0, 1}, {"1", 1, 9}, {"0", 9, 23}};
    c.x = c.x.detach().requires_grad_(x_has_gradient);
    const auto weights = at::randn({23, 9});
    auto gradients = [&](decltype(&grouped_lora) op) {
      for (auto& leaf : c.leaves())
        if (leaf.requires_grad()) leaf.mutable_grad() = at::ones_like(leaf.detach());
      (op(c.x, c.adapters, c.rows, 9) * weights).sum().backward();
      TensorList list;
      for (auto& leaf : c.leaves())
        if (leaf.requires_grad()) list.push_back(leaf.grad().clone());
      return list;
    };
    const auto wanted = gradients(composed_with_base), found = gradients(added_to_base);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
    EXPECT_TRUE(
        at::allclose(added_to_base(c.x, c.adapters, c.rows, 9), composed_with_base(c.x, c.adapters, c.rows, 9), 1e-6, 1e-6));
  }
}

// An adapter that comes twice, or factors without a gradient: autograd accumulates them.
TEST(GroupedLora, AccumulatingFollowsTheComposition) { expect_follows_plain(added_to_zeros, grouped_case(true)); }

// What an adapter gives and gets does not depend on who else is in the batch, not even on numbers that are not finite.
void expect_independent(decltype(&grouped_lora) op) {
  auto c = grouped_case(false);
  auto of = [&](const Tensor& y) {
    auto rows = y.narrow(0, 9, 5);
    auto grads = torch::autograd::grad({rows.sum()}, {c.adapters[0].a, c.adapters[0].b});
    return TensorList{rows.detach(), grads[0], grads[1]};
  };
  const auto before = of(op(c.x, c.adapters, c.rows, 9));
  c.adapters[1].b = at::full({9, 8}, std::numeric_limits<float>::infinity()).requires_grad_(true);
  const auto after = of(op(c.x, c.adapters, c.rows, 9));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
}
TEST(GroupedLora, AdaptersDoNotTouchEachOther) {
  expect_independent(grouped_lora);
  expect_independent(padded_grouped_lora);
}

}  // namespace
}  // namespace hone::ops
