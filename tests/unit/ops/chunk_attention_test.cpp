#include "hone/ops/attention/chunk_attention.h"

#include "hone/ops/attention/attention.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

using Visible = ChunkPair::Visible;

struct ChunkInputs {
  Tensor q, k, v, grad;
};
ChunkInputs chunk_inputs(const ChunkPair& pair, at::Device device = at::kCPU, at::ScalarType type = at::kFloat) {
  auto make = [&](int64_t rows, int64_t heads) { return random({rows, heads, 64}).to(device, type); };
  return {make(pair.queries, 4), make(pair.keys, 2), make(pair.keys, 2), make(pair.queries, 4)};
}

void expect_close(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LT(relative_difference(found.cpu(), expected.cpu()), tolerance) << what;
}

void expect_like_plain(const ChunkPair& pair, double tolerance, at::Device device = at::kCPU, at::ScalarType type = at::kFloat) {
  const auto [q, k, v, grad] = chunk_inputs(pair, device, type);
  const auto found = chunk_attention(q, k, v, pair, 0.125), expected = chunk_attention_plain(q, k, v, pair, 0.125);
  expect_close(found.out, expected.out, tolerance, "out");
  expect_close(found.lse, expected.lse, tolerance, "lse");
  const auto gradients = chunk_attention_backward(grad, q, k, v, expected, pair, 0.125),
             oracle = chunk_attention_backward_plain(grad, q, k, v, expected, pair, 0.125);
  expect_close(gradients.q, oracle.q, tolerance, "dq");
  expect_close(gradients.k, oracle.k, tolerance, "dk");
  expect_close(gradients.v, oracle.v, tolerance, "dv");
}

TEST(ChunkAttention, KnowsWhatAChunkSees) {
  EXPECT_EQ((ChunkPair{8, 4, 0, 8}).visible(), Visible::everything);
  EXPECT_EQ((ChunkPair{8, 4, 8, 4}).visible(), Visible::causal);
  EXPECT_EQ((ChunkPair{0, 4, 4, 4}).visible(), Visible::nothing);
  EXPECT_EQ((ChunkPair{2, 4, 0, 4}).visible(), Visible::some);
  EXPECT_EQ((ChunkPair{8, 4, 0, 8, 12}).visible(), Visible::everything);
  EXPECT_EQ((ChunkPair{8, 4, 0, 8, 11}).visible(), Visible::some);
  EXPECT_EQ((ChunkPair{8, 4, 0, 4, 5}).visible(), Visible::nothing);
  EXPECT_EQ((ChunkPair{8, 4, 8, 4, 3}).visible(), Visible::some);
}

TEST(ChunkAttention, MatchesItsDefinition) {
  at::manual_seed(5);
  for (const ChunkPair& pair :
       {ChunkPair{40, 30, 0, 40}, ChunkPair{16, 33, 16, 33}, ChunkPair{7, 20, 0, 20}, ChunkPair{20, 20, 0, 20, 9}})
    expect_like_plain(pair, 1e-5);
}

TEST(ChunkAttention, MatchesItsDefinitionOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(5);
  for (const ChunkPair& pair : {ChunkPair{200, 100, 0, 200}, ChunkPair{64, 130, 64, 130}})
    expect_like_plain(pair, 2e-2, at::kCUDA, at::kBFloat16);
}

// The gradients of the chunks of a sequence add up to those of its attention.
void expect_chunks_to_add_up(const std::vector<int64_t>& bounds, int64_t window, double tolerance, at::Device device,
                             at::ScalarType type) {
  const int64_t length = bounds.back();
  const auto [q, k, v, grad] = chunk_inputs({0, length, 0, length}, device, type);
  TensorList leaves;
  for (const auto& x : {q, k, v}) leaves.push_back(x.reshape({length, -1}).to(at::kFloat).detach().clone().requires_grad_());
  CuSeqlens segments;
  segments.append(length);
  auto expected =
      attention_plain(leaves[0], leaves[1], leaves[2], attention_metadata(segments, device), {4, 2, 64, 0.125, window});
  expected.backward(grad.reshape({length, -1}).to(at::kFloat));
  const auto whole = chunk_attention_plain(q, k, v, {0, length, 0, length, window}, 0.125);
  expect_close(whole.out.reshape({length, -1}), expected.detach(), tolerance, "out");
  auto sum_like = [](const Tensor& x) { return at::zeros(x.sizes(), x.options().dtype(at::kFloat)); };
  auto dq = sum_like(q), dk = sum_like(k), dv = sum_like(v);
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    for (size_t j = 0; j + 1 < bounds.size(); ++j) {
      auto queries = [&](const Tensor& x) { return x.narrow(0, bounds[i], bounds[i + 1] - bounds[i]); };
      auto keys = [&](const Tensor& x) { return x.narrow(0, bounds[j], bounds[j + 1] - bounds[j]); };
      const ChunkPair pair{bounds[i], bounds[i + 1] - bounds[i], bounds[j], bounds[j + 1] - bounds[j], window};
      if (pair.visible() == Visible::nothing) continue;
      const auto found =
          chunk_attention_backward(queries(grad), queries(q), keys(k), keys(v),
                                   {queries(whole.out), whole.lse.narrow(1, pair.first_query, pair.queries)}, pair, 0.125);
      queries(dq).add_(found.q);
      keys(dk).add_(found.k);
      keys(dv).add_(found.v);
    }
  expect_close(dq.reshape({length, -1}), leaves[0].grad(), tolerance, "dq");
  expect_close(dk.reshape({length, -1}), leaves[1].grad(), tolerance, "dk");
  expect_close(dv.reshape({length, -1}), leaves[2].grad(), tolerance, "dv");
}

TEST(ChunkAttention, ChunksAddUpToTheSequence) {
  at::manual_seed(5);
  for (int64_t window : {int64_t{0}, int64_t{10}}) expect_chunks_to_add_up({0, 24, 25, 48}, window, 1e-5, at::kCPU, at::kFloat);
}

TEST(ChunkAttention, ChunksAddUpToTheSequenceOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(5);
  expect_chunks_to_add_up({0, 100, 101, 230}, 0, 3e-2, at::kCUDA, at::kBFloat16);
}

}  // namespace
}  // namespace hone::ops
