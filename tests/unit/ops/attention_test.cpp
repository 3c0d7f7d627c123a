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

}  // namespace
}  // namespace hone::ops
