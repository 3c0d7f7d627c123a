// Kernels of generation on an NVIDIA GPU beside their definitions computed in float32. Skipped where there is no GPU or nothing
// was built for one.
#include "hone/ops/attention/decode_chunks.h"
#include "hone/ops/attention/fused_qkv_attention.h"
#include "hone/ops/attention/kv_quantization.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/cuda/thin_linear.h"
#include "hone/ops/linear/float8_weight.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/sample_tokens.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

class GpuEngine : public testing::Test {
 protected:
  void SetUp() override {
    at::NoGradGuard no_grad;
    if (!at::hasCUDA() || !cuda::supports_thin(at::zeros({1, 8}, at::TensorOptions(at::kHalf).device(at::kCUDA)),
                                               at::zeros({8, 8}, at::TensorOptions(at::kHalf).device(at::kCUDA))))
      GTEST_SKIP() << "no GPU, or no kernels for it";
    at::manual_seed(7);
  }
  at::NoGradGuard no_grad_;
};

Tensor random_on_gpu(std::vector<int64_t> shape, at::ScalarType type, double size = 1) {
  return (at::randn(shape, at::TensorOptions(at::kFloat).device(at::kCUDA)) * size).to(type);
}

double distance_on_gpu(const Tensor& found, const Tensor& expected) {
  auto x = found.to(at::kDouble), y = expected.to(at::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
}

// Sequences of these lengths, the last token new, their blocks anywhere in the cache: found beside the composition in float32.
void expect_decodes(const std::vector<int64_t>& lengths, const AttentionShape& shape, at::ScalarType type,
                    KvCacheDtype code = KvCacheDtype::plain) {
  constexpr int64_t kBlock = 16;
  const auto sequences = static_cast<int64_t>(lengths.size());
  int64_t blocks = 0;
  for (auto length : lengths) blocks += (length + kBlock - 1) / kBlock;
  auto order = at::randperm(blocks, at::TensorOptions(at::kInt)).contiguous();
  std::vector<PagedSequence> batch;
  const auto* next = order.const_data_ptr<int32_t>();
  for (auto length : lengths) {
    const auto count = static_cast<size_t>((length + kBlock - 1) / kBlock);
    batch.push_back({length - 1, 1, {next, count}});
    next += count;
  }
  auto kv_shape = std::vector<int64_t>{blocks, shape.kv_heads, kBlock, shape.head_dim};
  auto keys = random_on_gpu(kv_shape, type), values = random_on_gpu(kv_shape, type);
  const bool plain = code == KvCacheDtype::plain;
  KvCacheLayer cache{plain ? keys : quantize_kv(keys, code).codes, plain ? values : quantize_kv(values, code).codes, code},
      wide{plain ? keys.to(at::kFloat) : cache.keys.clone(), plain ? values.to(at::kFloat) : cache.values.clone(), code};
  auto q = random_on_gpu({sequences, shape.heads * shape.head_dim}, type),
       k = random_on_gpu({sequences, shape.kv_heads * shape.head_dim}, type), v = at::randn_like(k);
  auto metadata = paged_attention_metadata(batch, kBlock, at::kCUDA);
  ASSERT_TRUE(metadata.decode_chunks.defined());
  auto found = paged_attention(q, k, v, cache, metadata, shape);
  auto expected = paged_attention_plain(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), wide, metadata, shape);
  EXPECT_LT(distance_on_gpu(found, expected), type == at::kHalf ? 2e-3 : 1e-2);
  for (int64_t i = 0; i < sequences; ++i) EXPECT_LT(distance_on_gpu(found[i], expected[i]), 2e-2) << "sequence " << i;
}

TEST_F(GpuEngine, DecodesSequencesOfAnyLength) {
  for (auto type : {at::kBFloat16, at::kHalf})
    for (int64_t head_dim : {64, 128, 256})
      for (auto [heads, kv_heads] : {std::pair<int64_t, int64_t>(28, 4), {16, 8}, {4, 4}, {20, 2}}) {
        AttentionShape shape{heads, kv_heads, head_dim, 1 / std::sqrt(static_cast<double>(head_dim))};
        expect_decodes({1}, shape, type);
        expect_decodes({160}, shape, type);
        expect_decodes({1, 16, 17, 63, 64, 65, 700, 3000, 129, 5}, shape, type);
      }
  expect_decodes({20000, 3, 1000}, {16, 8, 128, 0.09}, at::kBFloat16);
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 256; ++i) many.push_back(100 + 37 * i % 1900);
  expect_decodes(many, {16, 8, 128, 0.09}, at::kBFloat16);
}

TEST_F(GpuEngine, DecodesFromACacheOf8BitFloats) {
  for (auto code : {KvCacheDtype::fp8_e4m3, KvCacheDtype::fp8_e5m2})
    for (auto type : {at::kBFloat16, at::kHalf})
      for (int64_t head_dim : {64, 128, 256})
        for (auto [heads, kv_heads] : {std::pair<int64_t, int64_t>(28, 4), {16, 8}, {4, 4}, {20, 2}}) {
          AttentionShape shape{heads, kv_heads, head_dim, 1 / std::sqrt(static_cast<double>(head_dim))};
          expect_decodes({1, 16, 17, 63, 64, 65, 700, 3000, 129, 5}, shape, type, code);
        }
}

TEST_F(GpuEngine, DecodesWithinAWindow) {
  for (int64_t window : {1, 50, 128, 1000}) expect_decodes({1, 49, 50, 51, 300, 3000}, {8, 4, 128, 0.09, window}, at::kBFloat16);
}

// A step of decodes, a prompt and the rest of another, out of a joined projection.
TEST_F(GpuEngine, NormsRotatesAndStoresPrompts) {
  constexpr int64_t kBlock = 16;
  for (int64_t head_dim : {64, 128, 256})
    for (auto [has_norms, code] :
         {std::pair(false, KvCacheDtype::plain), {true, KvCacheDtype::plain}, {true, KvCacheDtype::fp8_e4m3}}) {
      AttentionShape shape{8, 2, head_dim, 0.1};
      std::vector<int32_t> blocks{9, 1, 4, 7, 0, 3, 8, 2, 6, 5};
      auto part = [&](size_t begin, size_t count) { return std::span<const int32_t>(blocks).subspan(begin, count); };
      std::vector<PagedSequence> batch{{17, 1, part(0, 2)}, {0, 30, part(2, 2)}, {33, 20, part(4, 4)}};
      const int64_t rows = 51, width = (shape.heads + 2 * shape.kv_heads) * head_dim, q_width = shape.heads * head_dim,
                    kv_width = shape.kv_heads * head_dim;
      auto qkv = random_on_gpu({rows, width}, at::kBFloat16);
      QkNorm norms;
      if (has_norms) norms = {random_on_gpu({head_dim}, at::kBFloat16), random_on_gpu({head_dim}, at::kBFloat16), 1e-6};
      std::vector<int64_t> kv_shape{10, shape.kv_heads, kBlock, head_dim};
      auto keys = random_on_gpu(kv_shape, at::kBFloat16), values = random_on_gpu(kv_shape, at::kBFloat16);
      const bool plain = code == KvCacheDtype::plain;
      KvCacheLayer cache{plain ? keys : quantize_kv(keys, code).codes, plain ? values : quantize_kv(values, code).codes, code},
          wide{plain ? keys.to(at::kFloat) : cache.keys.clone(), plain ? values.to(at::kFloat) : cache.values.clone(), code};
      auto table = rope_table(at::arange(rows, at::TensorOptions(at::kInt).device(at::kCUDA)),
                              at::rand({head_dim / 2}, at::TensorOptions(at::kFloat).device(at::kCUDA)));
      auto metadata = paged_attention_metadata(batch, kBlock, at::kCUDA);
      auto found = fused_qkv_attention(qkv, norms, table, cache, metadata, shape);
      auto rotated = [&](int64_t begin, int64_t size, const Tensor& norm) {
        auto x = qkv.narrow(1, begin, size).to(at::kFloat);
        if (norm.defined()) x = rms_norm_plain(x.reshape({rows, -1, head_dim}), norm.to(at::kFloat), 1e-6).reshape({rows, -1});
        return rope_plain(x.contiguous(), table);
      };
      auto expected =
          paged_attention_plain(rotated(0, q_width, norms.q), rotated(q_width, kv_width, norms.k),
                                qkv.narrow(1, q_width + kv_width, kv_width).to(at::kFloat).contiguous(), wide, metadata, shape);
      auto numbers = [&](const Tensor& of) { return plain ? of : dequantize_kv({of, {}}, code, at::kFloat); };
      EXPECT_LT(distance_on_gpu(found, expected), plain ? 1e-2 : 3e-2);  // a key near the middle of two codes may get the other
      EXPECT_LT(distance_on_gpu(numbers(cache.keys), numbers(wide.keys)), plain ? 1e-2 : 4e-2);
      EXPECT_LT(distance_on_gpu(numbers(cache.values), numbers(wide.values)), 1e-3);
    }
}

// Keys and values of a prompt are those that later steps read, bit for bit, and queries do not depend on the cache's dtype. A
// thread has several heads of a long prompt.
void expect_prompt_as_cached(KvCacheDtype code, at::ScalarType type, int64_t head_dim, int64_t rows) {
  constexpr int64_t kBlock = 16;
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  const bool is_plain = code == KvCacheDtype::plain;
  AttentionShape shape{7, 3, head_dim, 0.1};
  const auto order = at::randperm(blocks, at::TensorOptions(at::kInt)).contiguous();
  const auto* first = order.const_data_ptr<int32_t>();
  auto metadata = paged_attention_metadata({{0, rows, {first, static_cast<size_t>(blocks)}}}, kBlock, at::kCUDA);
  auto qkv = random_on_gpu({rows, 13 * head_dim}, type, 100);  // some beyond the range of e4m3
  const QkNorm norms{random_on_gpu({head_dim}, type), random_on_gpu({head_dim}, type), 1e-6};
  auto table = rope_table(at::arange(rows, at::TensorOptions(at::kInt).device(at::kCUDA)),
                          at::rand({head_dim / 2}, at::TensorOptions(at::kFloat).device(at::kCUDA)));
  auto cache_of = [&](KvCacheDtype kind) {
    return allocate_kv_cache_layer(blocks, shape.kv_heads, kBlock, head_dim, qkv.options(), kind);
  };
  auto plain = cache_of(KvCacheDtype::plain), narrow = cache_of(code);
  const auto wide = cuda::qk_norm_rope_store_kv(qkv, norms, table, plain, metadata, shape, true),
             found = cuda::qk_norm_rope_store_kv(qkv, norms, table, narrow, metadata, shape, true);
  auto rotated = [&](int64_t head, int64_t heads, const Tensor& norm) {
    auto x = qkv.narrow(1, head * head_dim, heads * head_dim).to(at::kFloat).reshape({rows, heads, head_dim});
    return rope_plain(rms_norm_plain(x, norm.to(at::kFloat), 1e-6).reshape({rows, -1}).contiguous(), table);
  };
  EXPECT_LT(distance_on_gpu(wide.q, rotated(0, 7, norms.q)), 1e-2);
  EXPECT_LT(distance_on_gpu(wide.k, rotated(7, 3, norms.k)), 1e-2);
  EXPECT_TRUE(at::equal(wide.v, qkv.narrow(1, 10 * head_dim, 3 * head_dim)));
  auto rounded = [&](const Tensor& x) {
    if (is_plain) return x;
    auto by_head = x.reshape({rows, shape.kv_heads, head_dim});
    return dequantize_kv(quantize_kv(by_head, code), code, type).view({rows, -1});
  };
  EXPECT_TRUE(at::equal(found.q, wide.q));
  EXPECT_TRUE(at::equal(found.k, rounded(wide.k)));
  EXPECT_TRUE(at::equal(found.v, rounded(wide.v)));
  auto cached = [&](const Tensor& pages) {
    auto numbers = is_plain ? pages : dequantize_kv({pages, {}}, code, type);
    return numbers.index_select(0, order.to(at::kCUDA)).transpose(1, 2).reshape({blocks * kBlock, -1}).narrow(0, 0, rows);
  };
  EXPECT_TRUE(at::equal(cached(narrow.keys), found.k));
  EXPECT_TRUE(at::equal(cached(narrow.values), found.v));
}

TEST_F(GpuEngine, PromptsAttendToRoundedKeysAndValues) {
  for (auto code : {KvCacheDtype::plain, KvCacheDtype::fp8_e4m3, KvCacheDtype::fp8_e5m2})
    for (auto type : {at::kBFloat16, at::kHalf})
      for (int64_t head_dim : {64, 128})
        for (int64_t rows : {45, 1030}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} rows", c10::toString(type), head_dim, rows));
          expect_prompt_as_cached(code, type, head_dim, rows);
        }
}

TEST_F(GpuEngine, ThinLayersTakeNormsSumsAndGates) {
  for (auto type : {at::kBFloat16, at::kHalf})
    for (int64_t rows : {1, 2})
      for (auto [in, out] : {std::pair<int64_t, int64_t>(3584, 4608), {896, 1152}, {64, 10}, {2048, 37}}) {
        auto x = random_on_gpu({rows, in}, type), weight = random_on_gpu({out, in}, type, 0.05),
             bias = random_on_gpu({out}, type), norm = random_on_gpu({in}, type), added = random_on_gpu({rows, out}, type);
        auto wide = [](const Tensor& t) { return t.to(at::kFloat); };
        ASSERT_TRUE(cuda::supports_thin(x, weight));
        auto plain = at::linear(wide(x), wide(weight), wide(bias));
        EXPECT_LT(distance_on_gpu(cuda::thin_linear(x, weight, bias), plain), 5e-3);
        EXPECT_LT(distance_on_gpu(cuda::thin_linear(x, weight, bias, {.added = added}), plain + wide(added)), 5e-3);
        auto normed = at::linear(rms_norm_plain(wide(x), wide(norm), 1e-6), wide(weight));
        EXPECT_LT(distance_on_gpu(cuda::thin_linear(x, weight, {}, {.norm = norm, .eps = 1e-6}), normed), 5e-3);
        if (out % 2) continue;
        auto parts = normed.chunk(2, 1);
        EXPECT_LT(distance_on_gpu(cuda::thin_linear(x, weight, {}, {.norm = norm, .eps = 1e-6, .gated = true}),
                                  at::silu(parts[0]) * parts[1]),
                  5e-3);
      }
}

TEST_F(GpuEngine, MultipliesAnyRowsByWeightsOf8BitFloats) {
  for (int64_t rows : {3, 64, 300})
    for (auto [in, out] : {std::pair<int64_t, int64_t>(3584, 4608), {896, 1152}, {18944, 3584}}) {
      auto x = random_on_gpu({rows, in}, at::kBFloat16), weight = random_on_gpu({out, in}, at::kBFloat16, 0.05),
           bias = random_on_gpu({out}, at::kBFloat16);
      if (!supports_float8(weight, out)) GTEST_SKIP() << "no products of 8-bit floats";
      auto found = base_product(x, weight, float8_weight_forward(weight), bias);
      auto exact = at::linear(x.to(at::kFloat), weight.to(at::kFloat), bias.to(at::kFloat));
      EXPECT_LT(distance_on_gpu(found, exact), 0.06) << rows << " " << in;
    }
}

// Greedy rows find the first of the greatest; the others one draw of a thousand as often as its probability says.
TEST_F(GpuEngine, DrawsTokens) {
  for (auto type : {at::kBFloat16, at::kFloat})
    for (int64_t vocabulary : {7, 1000, 151936, 151937})
      for (int64_t rows : {1, 300}) {
        auto logits = random_on_gpu({rows, vocabulary}, type);
        SamplingTensors draws;
        for (int64_t i = 0; i < rows; ++i) {
          draws.temperatures.push_back(0), draws.top_k.push_back(0), draws.top_p.push_back(1), draws.keys.push_back(i);
        }
        auto best = std::get<0>(logits.max(1, true)), first = logits.eq(best).to(at::kFloat).argmax(1);
        EXPECT_TRUE(at::equal(sample_tokens(logits, draws), first)) << vocabulary << " " << rows;
      }
  constexpr int64_t kDraws = 20000;
  auto logits = at::tensor({0.0, 1.0, 2.0, -1.0, 0.5}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  SamplingTensors draws;
  for (int64_t i = 0; i < kDraws; ++i)
    draws.temperatures.push_back(0.8F), draws.top_k.push_back(0), draws.top_p.push_back(1), draws.keys.push_back(i * 7919);
  auto drawn = sample_tokens(logits.unsqueeze(0).expand({kDraws, 5}).contiguous(), draws);
  auto shares = at::bincount(drawn, {}, 5).to(at::kFloat) / kDraws;
  EXPECT_LT((shares - (logits / 0.8).softmax(0)).abs().max().item<double>(), 0.015);
}

}  // namespace

// The list alone, on any machine.
TEST(DecodeChunks, CoverEverySequenceWithinTheirRoom) {
  for (const auto& lengths : {std::vector<int64_t>{1}, {64, 65}, {20000, 3, 1000}, std::vector<int64_t>(256, 900)}) {
    const auto sequences = static_cast<int64_t>(lengths.size()) + 3;
    const auto list = decode_chunks(lengths, sequences);
    ASSERT_LE(static_cast<int64_t>(list.size()), decode_chunk_room(sequences));
    ASSERT_EQ(static_cast<int64_t>(list.size()), 3 + sequences + list[1]);
    EXPECT_EQ(list[0] % 64, 0);
    for (int64_t i = 0; i < sequences; ++i) {
      const auto at = static_cast<size_t>(2 + i);
      const auto length = i < static_cast<int64_t>(lengths.size()) ? lengths[static_cast<size_t>(i)] : 0;
      EXPECT_EQ(list[at + 1] - list[at], (length + list[0] - 1) / list[0]);
      for (auto chunk = list[at]; chunk < list[at + 1]; ++chunk) EXPECT_EQ(list[static_cast<size_t>(3 + sequences + chunk)], i);
    }
  }
}

}  // namespace hone::ops
