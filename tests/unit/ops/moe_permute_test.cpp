#include "hone/ops/moe/moe_permute.h"

#include "hone/ops/sample_tokens.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

// The mixture as it is usually written: for every token the weighted sum over its experts.
Tensor by_token(const Tensor& tokens, const Tensor& experts, const Tensor& matrices, const Tensor& weights) {
  TensorList rows;
  for (int64_t t = 0; t < tokens.size(0); ++t) {
    auto row = at::zeros({matrices.size(2)});
    for (int64_t j = 0; j < experts.size(1); ++j)
      row = row + weights[t][j] * at::matmul(tokens[t], matrices[experts[t][j].item<int64_t>()]);
    rows.push_back(row);
  }
  return at::stack(rows);
}

TEST(PermutedTokens, MixtureIsTheSumOverEachTokensExperts) {
  at::manual_seed(1);
  auto experts = at::stack({at::randperm(5, at::kLong), at::randperm(5, at::kLong), at::randperm(5, at::kLong)}).narrow(1, 0, 2);
  auto counts = at::bincount(experts.reshape({-1}), {}, 5);
  expect_same(
      [&](auto& in) {
        auto sent = moe_permute(in[0], experts, 5);
        return moe_unpermute(grouped_matmul(sent.rows_rh, in[1], counts), sent.permutation_r, in[2]);
      },
      [&](auto& in) { return by_token(in[0], experts, in[1], in[2]); }, {random({3, 8}), random({5, 8, 6}), at::rand({3, 2})},
      1e-5);
}

TEST(PermutedTokens, RowsOfAnExpertKeepTheTokensOrder) {
  auto sent = moe_permute(at::arange(4, at::kFloat).unsqueeze(1), at::tensor({1, 0, 1, 0}, at::kLong).unsqueeze(1), 2);
  EXPECT_TRUE(at::equal(sent.rows_rh.view(-1), at::tensor({1.F, 3.F, 0.F, 2.F})));
  EXPECT_TRUE(at::equal(sent.permutation_r, at::tensor({2, 0, 3, 1}, at::kInt)));
}

TEST(TopKTopP, KeepsTheFewestThatHoldTheirShare) {
  auto logits = at::log(at::tensor({0.1F, 0.5F, 0.3F, 0.1F})).expand({4, 4}).contiguous();
  auto kept = at::isfinite(top_k_top_p_plain(logits, at::tensor({0, 1, 0, 2}, at::kInt), at::tensor({1.F, 1.F, 0.6F, 0.1F})));
  EXPECT_TRUE(at::equal(kept.sum(1), at::tensor({4, 1, 2, 1}, at::kLong)));
  EXPECT_TRUE(kept.select(1, 1).all().item<bool>());
}

}  // namespace
}  // namespace hone::ops
