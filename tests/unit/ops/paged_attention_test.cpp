#include "hone/ops/attention/paged_attention.h"

#include <gtest/gtest.h>

#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

class Paged : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(3); }
  Tensor random(at::IntArrayRef shape) const { return at::randn(shape).to(GetParam()); }
  KvCacheLayer cache(int64_t blocks, int64_t block_size, const AttentionShape& shape) const {
    return {random({blocks, shape.kv_heads, block_size, shape.head_dim}),
            random({blocks, shape.kv_heads, block_size, shape.head_dim})};
  }
};

// Three sequences fed in parts of every kind, over blocks in no order: each part sees what full sequences would.
TEST_P(Paged, PartsOfASequenceSeeAllBeforeThem) {
  for (int64_t window : {0, 6}) {
    AttentionShape shape{6, 2, 24, 0.2, window};
    std::vector<int64_t> lengths{20, 10, 33};
    std::vector<std::vector<int32_t>> blocks{{7, 3, 11, 0, 9}, {2, 5, 13}, {1, 4, 6, 8, 10, 12, 14, 15, 16}};
    std::vector<Tensor> q, k, v, expected;
    for (auto length : lengths) {
      q.push_back(random({length, 6 * 24}));
      k.push_back(random({length, 2 * 24}));
      v.push_back(random({length, 2 * 24}));
      expected.push_back(attention_with_prefix_plain(q.back(), k.back(), v.back(), shape));
    }
    auto pages = cache(17, 4, shape);
    std::vector<int64_t> done{0, 0, 0};
    for (std::vector<int64_t> counts : {std::vector<int64_t>{13, 0, 1}, {1, 1, 20}, {1, 8, 12}, {5, 1, 0}}) {
      std::vector<size_t> order;  // single tokens first, as paged_attention_metadata requires
      for (bool single : {true, false})
        for (size_t i = 0; i < 3; ++i)
          if (counts[i] > 0 && (counts[i] == 1) == single) order.push_back(i);
      std::vector<PagedSequence> sequences;
      TensorList rows_q, rows_k, rows_v, wanted;
      for (auto i : order) {
        sequences.push_back({done[i], counts[i], blocks[i]});
        rows_q.push_back(q[i].narrow(0, done[i], counts[i]));
        rows_k.push_back(k[i].narrow(0, done[i], counts[i]));
        rows_v.push_back(v[i].narrow(0, done[i], counts[i]));
        wanted.push_back(expected[i].narrow(0, done[i], counts[i]));
        done[i] += counts[i];
      }
      auto metadata = paged_attention_metadata(sequences, 4, at::kCPU);
      auto copy = KvCacheLayer{pages.keys.clone(), pages.values.clone()};
      auto plain = paged_attention_plain(at::cat(rows_q), at::cat(rows_k), at::cat(rows_v), copy, metadata, shape);
      auto fast = paged_attention(at::cat(rows_q), at::cat(rows_k), at::cat(rows_v), pages, metadata, shape);
      EXPECT_LT(relative_difference(plain, at::cat(wanted)), tolerance_of(GetParam())) << "plain, window " << window;
      EXPECT_LT(relative_difference(fast, at::cat(wanted)), tolerance_of(GetParam())) << "fast, window " << window;
    }
  }
}

TEST_P(Paged, LongSequencesAreSharedAmongThreads) {
  AttentionShape shape{4, 1, 32, 0.2};
  constexpr int64_t kLength = 1500, kBlock = 16;
  std::vector<int32_t> blocks;
  for (int32_t i = 0; i < 94; ++i) blocks.push_back(93 - i);
  auto k = random({kLength, 32}), v = random({kLength, 32}), q = random({kLength, 128});
  auto pages = cache(94, kBlock, shape);
  auto metadata = paged_attention_metadata({{0, kLength - 1, blocks}}, kBlock, at::kCPU);
  paged_attention(q.narrow(0, 0, kLength - 1), k.narrow(0, 0, kLength - 1), v.narrow(0, 0, kLength - 1), pages, metadata, shape);
  auto last = [&](const Tensor& x) { return x.narrow(0, kLength - 1, 1); };
  auto found = paged_attention(last(q), last(k), last(v), pages,
                               paged_attention_metadata({{kLength - 1, 1, blocks}}, kBlock, at::kCPU), shape);
  EXPECT_LT(relative_difference(found, attention_with_prefix_plain(last(q), k, v, shape)), tolerance_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, Paged, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

// A cache in fewer bits: the fast path computes what the composition does, and both stay near the cache that keeps all.
TEST(CodedCache, FewerBitsGiveNearlyTheSame) {
  at::manual_seed(5);
  AttentionShape shape{6, 2, 48, 0.15};
  const std::vector<int64_t> lengths{45, 700, 9};
  std::vector<std::vector<int32_t>> blocks(3);
  int32_t next = 0;
  for (size_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < (lengths[i] + 15) / 16; ++j) blocks[i].push_back(next++);
  struct Kind {
    KvCacheDtype code;
    double tolerance, bytes;  // of the answers; of a head's key and value
  };
  for (auto [code, tolerance, bytes] : {Kind{KvCacheDtype::plain, 1e-5, 2 * 48 * 4},
                                        {KvCacheDtype::int8, 0.02, 2 * (48 + 8)},
                                        {KvCacheDtype::fp8_e4m3, 0.1, 2 * 48},
                                        {KvCacheDtype::fp8_e5m2, 0.18, 2 * 48},
                                        {KvCacheDtype::int4, 0.3, 2 * (24 + 8)}}) {
    auto fast = allocate_kv_cache_layer(next, 2, 16, 48, at::TensorOptions(at::kFloat), code),
         plain = allocate_kv_cache_layer(next, 2, 16, 48, at::TensorOptions(at::kFloat), code);
    EXPECT_EQ(static_cast<double>(kv_bytes_per_token(1, 48, at::kFloat, code)), bytes);
    std::vector<int64_t> done(3);
    std::vector<Tensor> keys(3), values(3);
    // A prompt in two parts, then single tokens.
    for (const auto& counts : {std::vector<int64_t>{20, 300, 4}, {24, 399, 4}, {1, 1, 1}}) {
      std::vector<PagedSequence> sequences;
      TensorList q, k, v, wanted;
      for (size_t i = 0; i < 3; ++i) {
        sequences.push_back({done[i], counts[i], blocks[i]});
        q.push_back(at::randn({counts[i], 6 * 48})), k.push_back(at::randn({counts[i], 2 * 48}) * 3 + 1),
            v.push_back(at::randn({counts[i], 2 * 48}));
        keys[i] = keys[i].defined() ? at::cat({keys[i], k.back()}) : k.back();
        values[i] = values[i].defined() ? at::cat({values[i], v.back()}) : v.back();
        wanted.push_back(attention_with_prefix_plain(q.back(), keys[i], values[i], shape));
        done[i] += counts[i];
      }
      auto metadata = paged_attention_metadata(sequences, 16, at::kCPU);
      auto found = paged_attention(at::cat(q), at::cat(k), at::cat(v), fast, metadata, shape);
      auto composed = paged_attention_plain(at::cat(q), at::cat(k), at::cat(v), plain, metadata, shape);
      EXPECT_LT(relative_difference(found, composed), 1e-5) << static_cast<int>(code);
      auto error = (found - at::cat(wanted)).norm() / at::cat(wanted).norm();
      EXPECT_LT(error.item<double>(), tolerance) << static_cast<int>(code);
    }
    if (code != KvCacheDtype::plain) {
      EXPECT_TRUE(at::equal(fast.keys.narrow(0, 0, 2), plain.keys.narrow(0, 0, 2))) << "the same codes";
    }
  }
}

}  // namespace
}  // namespace hone::ops
