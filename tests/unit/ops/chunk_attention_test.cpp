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
TEST(ChunkAttention, ChunksAddUpToTheSequence) {
  at::manual_seed(5);
  const int64_t length = 48, half = 24;
  for (int64_t window : {int64_t{0}, int64_t{10}}) {
    const auto [q, k, v, grad] = chunk_inputs({0, length, 0, length});
    TensorList leaves;
    for (const auto& x : {q, k, v}) leaves.push_back(x.reshape({length, -1}).detach().clone().requires_grad_());
    CuSeqlens segments;
    segments.append(length);
    auto expected =
        attention_plain(leaves[0], leaves[1], leaves[2], attention_metadata(segments, at::kCPU), {4, 2, 64, 0.125, window});
    expected.backward(grad.reshape({length, -1}));
    const auto whole = chunk_attention_plain(q, k, v, {0, length, 0, length, window}, 0.125);
    expect_close(whole.out.reshape({length, -1}), expected.detach(), 1e-5, "out");
    auto dk = at::zeros_like(k), dq = at::zeros_like(q);
    for (int64_t queries : {int64_t{0}, half})
      for (int64_t keys : {int64_t{0}, half}) {
        const ChunkPair pair{queries, half, keys, half, window};
        if (pair.visible() == Visible::nothing) continue;
        auto part = [&](const Tensor& x, int64_t begin) { return x.narrow(0, begin, half); };
        const auto found = chunk_attention_backward(part(grad, queries), part(q, queries), part(k, keys), part(v, keys),
                                                    {part(whole.out, queries), whole.lse.narrow(1, queries, half)}, pair, 0.125);
        part(dq, queries).add_(found.q);
        part(dk, keys).add_(found.k);
      }
    expect_close(dq.reshape({length, -1}), leaves[0].grad(), 1e-5, "dq");
    expect_close(dk.reshape({length, -1}), leaves[1].grad(), 1e-5, "dk");
  }
}

}  // namespace
}  // namespace hone::ops
