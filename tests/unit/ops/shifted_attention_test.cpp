#include "hone/ops/attention/shifted_attention.h"

#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

// By its definition: scores of all pairs, of which a head sees those of its own group, in the order it sees them.
Tensor by_masks(const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments, const AttentionShape& shape) {
  TensorList texts;
  for (int64_t s = 0; s < segments.count(); ++s) {
    const int64_t begin = segments.offsets[static_cast<size_t>(s)], length = segments.length(s), padded = (length + 7) / 8 * 8,
                  size = padded / 4;
    const auto heads = [&](const Tensor& x, int64_t count) {
      auto own = x.narrow(0, begin, length).view({length, count, -1}).transpose(0, 1);
      return own.repeat_interleave(shape.heads / count, 0);
    };
    TensorList masks;
    for (int64_t head = 0; head < shape.heads; ++head) {
      auto rank = (at::arange(padded) + (head < shape.heads / 2 ? 0 : padded - size / 2)) % padded;
      rank = rank.narrow(0, 0, length);
      auto group = rank.div(size, "floor");
      auto seen = (group.unsqueeze(1) == group.unsqueeze(0)).logical_and(rank.unsqueeze(1) >= rank.unsqueeze(0));
      masks.push_back(at::zeros({length, length}).masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()));
    }
    auto scores = heads(q, shape.heads).matmul(heads(k, shape.kv_heads).transpose(1, 2)) * shape.scale + at::stack(masks);
    texts.push_back(scores.softmax(-1).matmul(heads(v, shape.kv_heads)).transpose(0, 1).reshape({length, -1}));
  }
  return at::cat(texts);
}

TEST(ShiftedAttention, IsAttentionWithinGroups) {
  at::manual_seed(5);
  for (auto [heads, kv_heads] : {std::pair<int64_t, int64_t>{4, 2}, {4, 4}, {4, 1}, {5, 1}, {3, 3}, {6, 2}, {1, 1}}) {
    CuSeqlens segments;
    for (int64_t length : {1, 2, 7, 8, 13, 16, 40, 61}) segments.append(length);
    AttentionShape shape{heads, kv_heads, 8, 0.3, 0};
    auto metadata = shifted_attention_metadata(segments, at::kCPU);
    SCOPED_TRACE(fmt::format("{} heads, {} of keys", heads, kv_heads));
    expect_same([&](auto& in) { return shifted_attention(in[0], in[1], in[2], metadata, shape); },
                [&](auto& in) { return by_masks(in[0], in[1], in[2], segments, shape); },
                {random({segments.total(), heads * 8}), random({segments.total(), kv_heads * 8}),
                 random({segments.total(), kv_heads * 8})},
                2e-5);
  }
}

}  // namespace
}  // namespace hone::ops
