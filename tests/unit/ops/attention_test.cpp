#include "hone/ops/attention/attention.h"

#include "hone/ops/linear/matmul.h"
#include "ops/ops_testing.h"

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
    auto plan = attention_metadata(segments, at::kCPU);
    for (bool widened : {false, true}) {  // with instructions for 16-bit numbers, and without
      force_upcast(widened);
      expect_same([&](auto& in) { return attention(in[0], in[1], in[2], plan, shape); },
                  [&](auto& in) { return attention_plain(in[0], in[1], in[2], plan, shape); }, inputs(segments.total(), shape),
                  tolerance_of(GetParam()));
    }
    force_upcast(std::nullopt);
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST_P(Attention, MatchesItsDefinitionOverPackedSequences) {
  compare(segments_of({1}), {2, 1, 16, 0.25});
  compare(segments_of({1, 33, 70, 2}), {4, 2, 16, 0.25});
  compare(segments_of({5, 129}), {6, 2, 24, 0.2});
  compare(segments_of({40}), {3, 3, 64, 0.125});
}

TEST_P(Attention, WindowHidesWhatIsOlder) { compare(segments_of({3, 50}), {4, 2, 16, 0.25, 8}); }

TEST_P(Attention, SeesBothWaysWhereNothingIsCausal) {
  compare(segments_of({1, 33, 70, 2}), {4, 2, 16, 0.25, 0, false});
  compare(segments_of({3, 50}), {4, 2, 16, 0.25, 8, false});
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
