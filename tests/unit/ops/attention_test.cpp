#include "hone/ops/attention/attention.h"

#include "hone/ops/cpu/attention.h"
#include "hone/ops/cpu/panel_attention.h"
#include "ops/ops_testing.h"
#include "ops/upcast_testing.h"

namespace hone::ops {
namespace {

CuSeqlens segments_of(std::initializer_list<int64_t> lengths) {
  CuSeqlens segments;
  for (int64_t length : lengths) segments.append(length);
  return segments;
}

class Attention : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(5); }
  TensorList inputs(int64_t tokens, const AttentionShape& shape) const {
    return {random({tokens, shape.heads * shape.head_dim}, GetParam()),
            random({tokens, shape.kv_heads * shape.head_dim}, GetParam()),
            random({tokens, shape.kv_heads * shape.head_dim}, GetParam())};
  }
  void compare(const CuSeqlens& segments, const AttentionShape& shape) const {
    auto metadata = attention_metadata(segments, at::kCPU);
    for (bool widened : {false, true}) {  // with instructions for 16-bit numbers, and without
      UpcastGuard upcast(widened);
      expect_same([&](auto& in) { return attention(in[0], in[1], in[2], metadata, shape); },
                  [&](auto& in) { return attention_plain(in[0], in[1], in[2], metadata, shape); },
                  inputs(segments.total(), shape), tolerance_of(GetParam()));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST_P(Attention, MatchesItsDefinitionOverPackedSequences) {
  compare(segments_of({1}), {2, 1, 16, 0.25});
  compare(segments_of({1, 33, 70, 2}), {4, 2, 16, 0.25});
  compare(segments_of({5, 129}), {6, 2, 24, 0.2});
  compare(segments_of({40}), {3, 3, 64, 0.125});
  compare(segments_of({401}), {4, 2, 20, 0.25});
  compare(segments_of({193, 3, 65, 200}), {4, 1, 32, 0.2});  // blocks of 192 keys, tiles of queries, short ones between
}

TEST_P(Attention, WindowHidesWhatIsOlder) {
  compare(segments_of({3, 50}), {4, 2, 16, 0.25, 8});
  compare(segments_of({450}), {2, 1, 16, 0.25, 90});
}

TEST_P(Attention, SeesBothWaysWhereNothingIsCausal) {
  compare(segments_of({1, 33, 70, 2}), {4, 2, 16, 0.25, 0, false});
  compare(segments_of({3, 50}), {4, 2, 16, 0.25, 8, false});
  compare(segments_of({450}), {2, 1, 16, 0.25, 90, false});
}

// As in the last block of a model that learns a few tokens after long prompts.
TEST_P(Attention, RowsThatNothingReadsAddNothingToGradients) {
  const AttentionShape shape{4, 2, 20, 0.25};
  const auto metadata = attention_metadata(segments_of({401, 30, 300}), at::kCPU);
  const auto rows = at::tensor(std::vector<int64_t>{100, 397, 399, 400, 430, 730});
  expect_same([&](auto& in) { return attention(in[0], in[1], in[2], metadata, shape).index_select(0, rows); },
              [&](auto& in) { return attention_plain(in[0], in[1], in[2], metadata, shape).index_select(0, rows); },
              inputs(731, shape), tolerance_of(GetParam()));
}

// A logsumexp of ten million has no digits left for the exact weights: its gradients are only finite.
void expect_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                      const AttentionShape& shape, bool exact) {
  auto fused = [&](const TensorList& in) { return attention(in[0], in[1], in[2], metadata, shape); };
  if (exact)
    return expect_same(
        fused, [&](auto& in) { return attention_plain(in[0], in[1], in[2], metadata, shape); }, {q, k, v},
        tolerance_of(at::kFloat));
  const TensorList leaves{q.clone().requires_grad_(), k.clone().requires_grad_(), v.clone().requires_grad_()};
  fused(leaves).sum().backward();
  for (const auto& leaf : leaves) EXPECT_TRUE(at::isfinite(leaf.grad()).all().item<bool>());
}

// Weights that are no numbers of float32 are zero, and the largest scores stay exact.
TEST(AttentionScores, MayBeFarApart) {
  const std::vector<float> near{0, -3, -50, -90, -2000, -0.5f}, far{1e7f, 0, -1e7f, -3e8f, 2, -8};
  for (const auto& pattern : {near, far}) {
    const int64_t keys = 200, d = 8;
    auto q = at::zeros({keys, d}), k = at::zeros({keys, d}), v = random({keys, d}, at::kFloat);
    q.select(1, 0).fill_(1);
    for (int64_t i = 0; i < keys; ++i) k[i][0] = pattern[static_cast<size_t>(i) % pattern.size()];
    auto metadata = attention_metadata(segments_of({keys}), at::kCPU);
    for (bool causal : {false, true}) {
      const AttentionShape shape{1, 1, d, 1, 0, causal};
      EXPECT_TRUE(at::allclose(attention(q, k, v, metadata, shape), attention_plain(q, k, v, metadata, shape), 1e-5, 1e-5));
      expect_gradients(q, k, v, metadata, shape, pattern == near);
    }
  }
}

// A prompt gives the same bits whether its positions are computed at once or chunk by chunk.
TEST_P(Attention, ChunksOfAPromptGiveTheBitsOfTheWhole) {
  const AttentionShape shape{4, 2, 16, 0.25, 150};
  const int64_t keys = 500;
  auto in = inputs(keys, shape);
  UpcastGuard upcast(true);
  if (!cpu::has_panel_attention(in[0])) GTEST_SKIP() << "libtorch's kernel splits queries by their number";
  auto heads = [&](const Tensor& x, int64_t count) {
    return x.narrow(0, 0, count).view({count, shape.kv_heads, shape.head_dim}).transpose(0, 1);
  };
  auto whole = at::empty_like(in[0]), chunks = at::empty_like(in[0]);
  cpu::attention_with_prefix(in[0], heads(in[1], keys), heads(in[2], keys), shape, whole);
  for (int64_t begin = 0, end = 0; begin < keys; begin = end) {
    end = std::min(keys, begin + 1 + begin);
    cpu::attention_with_prefix(in[0].narrow(0, begin, end - begin), heads(in[1], end), heads(in[2], end), shape,
                               chunks.narrow(0, begin, end - begin));
  }
  EXPECT_TRUE(at::equal(whole, chunks));
}

TEST_P(Attention, EachSegmentHasItsKind) {
  using enum AttentionKind;
  auto segments = segments_of({4, 9, 1, 30});
  AttentionShape shape{4, 2, 16, 0.25};
  auto in = inputs(segments.total(), shape);
  auto mixed = attention(in[0], in[1], in[2],
                         attention_metadata(segments, at::kCPU, {causal, bidirectional, bidirectional, causal}), shape);
  auto one_way = attention(in[0], in[1], in[2], attention_metadata(segments, at::kCPU), shape);
  shape.causal = false;
  auto both_ways = attention(in[0], in[1], in[2], attention_metadata(segments, at::kCPU), shape);
  EXPECT_TRUE(at::equal(mixed.narrow(0, 0, 4), one_way.narrow(0, 0, 4)));
  EXPECT_TRUE(at::equal(mixed.narrow(0, 4, 10), both_ways.narrow(0, 4, 10)));
  EXPECT_TRUE(at::equal(mixed.narrow(0, 14, 30), one_way.narrow(0, 14, 30)));
}

// torch's own attention without a mask, sequence by sequence.
TEST(BidirectionalAttention, IsUnmaskedAttention) {
  at::manual_seed(5);
  AttentionShape shape{2, 2, 16, 0.25, 0, false};
  auto segments = segments_of({5, 40});
  auto q = at::randn({45, 32}), k = at::randn({45, 32}), v = at::randn({45, 32});
  auto out = attention(q, k, v, attention_metadata(segments, at::kCPU), shape);
  for (auto [begin, length] : {std::pair<int64_t, int64_t>{0, 5}, {5, 40}}) {
    auto heads = [&, begin = begin, length = length](const Tensor& x) {
      return x.narrow(0, begin, length).view({1, length, 2, 16}).transpose(1, 2);
    };
    auto expected = at::scaled_dot_product_attention(heads(q), heads(k), heads(v), std::nullopt, 0.0, false, shape.scale);
    EXPECT_TRUE(at::allclose(heads(out), expected, 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace hone::ops
