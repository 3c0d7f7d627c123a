#include "hone/ops/attention.h"

#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

Segments segments_of(std::initializer_list<int64_t> lengths) {
  Segments segments;
  for (int64_t length : lengths) segments.append(length);
  return segments;
}

class Attention : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(5); }
  TensorList inputs(int64_t tokens, const AttentionShape& shape) const {
    return {random({tokens, shape.heads * shape.head_dim}, GetParam()), random({tokens, shape.kv_heads * shape.head_dim}, GetParam()),
            random({tokens, shape.kv_heads * shape.head_dim}, GetParam())};
  }
  void compare(const Segments& segments, const AttentionShape& shape) const {
    auto plan = attention_plan(segments, at::kCPU);
    expect_same([&](auto& in) { return attention(in[0], in[1], in[2], plan, shape); },
                [&](auto& in) { return attention_plain(in[0], in[1], in[2], plan, shape); }, inputs(segments.total(), shape), tolerance_of(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::Values(at::kFloat, at::kBFloat16), [](const auto& info) { return c10::toString(info.param); });

TEST_P(Attention, MatchesItsDefinitionOverPackedSequences) {
  compare(segments_of({1}), {2, 1, 16, 0.25});
  compare(segments_of({1, 33, 70, 2}), {4, 2, 16, 0.25});
  compare(segments_of({5, 129}), {6, 2, 24, 0.2});
  compare(segments_of({40}), {3, 3, 64, 0.125});
}

TEST_P(Attention, WindowHidesWhatIsOlder) { compare(segments_of({3, 50}), {4, 2, 16, 0.25, 8}); }

TEST_P(Attention, CacheContinuesASequence) {
  for (int64_t window : {0, 6}) {
    AttentionShape shape{4, 2, 24, 0.2, window};
    auto in = inputs(30, shape);
    auto whole = attention_plain(in[0], in[1], in[2], attention_plan(segments_of({20, 10}), at::kCPU), shape);
    CachedKeys cache{random({3, 32, 2, 24}, GetParam()), random({3, 32, 2, 24}, GetParam()), {2, 0}, {20, 10}};
    for (auto [to, from] : {std::pair(&cache.keys, &in[1]), std::pair(&cache.values, &in[2])}) {
      to->select(0, 2).narrow(0, 0, 20).copy_(from->narrow(0, 0, 20).view({20, 2, 24}));
      to->select(0, 0).narrow(0, 0, 10).copy_(from->narrow(0, 20, 10).view({10, 2, 24}));
    }
    auto last_of_each = at::cat({in[0].narrow(0, 19, 1), in[0].narrow(0, 29, 1)});
    auto decoded = attention_cached(last_of_each, cache, attention_plan(segments_of({1, 1}), at::kCPU), shape);
    EXPECT_LT(relative_difference(decoded, at::cat({whole.narrow(0, 19, 1), whole.narrow(0, 29, 1)})), tolerance_of(GetParam()));
    auto tails = at::cat({in[0].narrow(0, 13, 7), in[0].narrow(0, 20, 10)});
    auto continued = attention_cached(tails, cache, attention_plan(segments_of({7, 10}), at::kCPU), shape);
    EXPECT_LT(relative_difference(continued, at::cat({whole.narrow(0, 13, 7), whole.narrow(0, 20, 10)})), tolerance_of(GetParam()));
  }
}

}  // namespace
}  // namespace hone::ops
