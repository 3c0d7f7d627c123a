#include "hone/ops/attention/chunk_attention.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

using Visible = ChunkPair::Visible;

constexpr double kSeesNothing = -1e30;               // finite, so that differences are numbers
constexpr int64_t kLargestTile = int64_t{16} << 20;  // scores computed at a time

// bool [queries, keys] of the queries [begin, begin + count): true where a query may not look.
Tensor hidden_keys(const ChunkPair& pair, int64_t begin, int64_t count, at::Device device) {
  auto options = at::TensorOptions(at::kLong).device(device);
  auto query = at::arange(pair.first_query + begin, pair.first_query + begin + count, options).unsqueeze(1);
  auto key = at::arange(pair.first_key, pair.first_key + pair.keys, options).unsqueeze(0);
  auto hidden = key > query;
  return pair.window > 0 ? hidden.logical_or_(key <= query - pair.window) : hidden;
}

// Queries of the heads that share a key head, side by side: [n, heads, d] -> float32 [kv_heads, group * n, d], and back.
Tensor by_key_head(const Tensor& x, int64_t kv_heads) {
  const int64_t n = x.size(0), group = x.size(1) / kv_heads;
  return x.to(at::kFloat).view({n, kv_heads, group, -1}).permute({1, 2, 0, 3}).reshape({kv_heads, group * n, -1});
}
Tensor by_query(const Tensor& x, int64_t n) {
  const int64_t kv_heads = x.size(0), group = x.size(1) / n;
  return x.view({kv_heads, group, n, -1}).permute({2, 0, 1, 3}).reshape({n, kv_heads * group, -1});
}

// Scores of a tile of queries, [kv_heads, group * n, keys].
Tensor tile_scores(const Tensor& q, const Tensor& k, const ChunkPair& pair, int64_t begin, int64_t count, double scale) {
  auto scores = at::matmul(q, k.transpose(1, 2)).mul_(scale);
  if (pair.visible() != Visible::everything)
    scores.view({q.size(0), -1, count, pair.keys})
        .masked_fill_(hidden_keys(pair, begin, count, q.device()), -std::numeric_limits<double>::infinity());
  return scores;
}

template <class Body>
void for_tiles(const ChunkPair& pair, int64_t heads, Body body) {  // body(first query, queries)
  const int64_t rows = std::max<int64_t>(1, kLargestTile / std::max<int64_t>(1, heads * pair.keys));
  for (int64_t begin = 0; begin < pair.queries; begin += rows) body(begin, std::min(rows, pair.queries - begin));
}

Tensor keys_by_head(const Tensor& x) { return x.to(at::kFloat).transpose(0, 1); }

// [n, heads, d] -> [1, heads, n, d], as libtorch's CPU kernel has it; key heads are repeated for the queries that share them.
Tensor batch_of(const Tensor& x, int64_t heads) {
  const int64_t group = heads / x.size(1);
  auto wide = group == 1 ? x : x.unsqueeze(2).expand({-1, -1, group, -1}).reshape({x.size(0), heads, -1});
  return wide.to(at::kFloat).transpose(0, 1).unsqueeze(0);
}
Tensor key_gradient(const Tensor& grad, int64_t kv_heads) {  // [1, heads, n, d] -> [n, kv_heads, d]
  auto wide = grad.squeeze(0).transpose(0, 1);
  const int64_t group = wide.size(1) / kv_heads;
  return group == 1 ? wide : wide.reshape({wide.size(0), kv_heads, group, -1}).sum(2);
}

bool fits_kernels(const ChunkPair& pair) { return pair.visible() == Visible::everything || pair.visible() == Visible::causal; }
bool is_causal(const ChunkPair& pair) { return pair.visible() == Visible::causal; }
AttentionShape shape_of(const Tensor& q, const Tensor& k) { return {q.size(1), k.size(1), q.size(2)}; }

}  // namespace

Visible ChunkPair::visible() const {
  const int64_t last_query = first_query + queries - 1, last_key = first_key + keys - 1;
  const bool all_in_window = window == 0 || last_query - first_key < window;
  if (queries == 0 || keys == 0 || first_key > last_query || (window > 0 && last_key <= first_query - window))
    return Visible::nothing;
  if (last_key <= first_query && all_in_window) return Visible::everything;
  return first_key == first_query && keys == queries && all_in_window ? Visible::causal : Visible::some;
}

ChunkAttention chunk_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const ChunkPair& pair, double scale) {
  const auto key = keys_by_head(k), value = keys_by_head(v);
  TensorList outputs, sums;
  for_tiles(pair, q.size(1), [&](int64_t begin, int64_t count) {
    auto scores = tile_scores(by_key_head(q.narrow(0, begin, count), k.size(1)), key, pair, begin, count, scale);
    auto lse = scores.logsumexp(-1, /*keepdim=*/true).clamp_min_(kSeesNothing);
    outputs.push_back(by_query(at::matmul(scores.sub_(lse).exp_(), value), count));
    sums.push_back(lse.view({q.size(1), count}));
  });
  return {at::cat(outputs).to(q.scalar_type()), at::cat(sums, 1)};
}

ChunkGradients chunk_attention_backward_plain(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                              const ChunkAttention& whole, const ChunkPair& pair, double scale) {
  const int64_t kv_heads = k.size(1);
  const auto key = keys_by_head(k), value = keys_by_head(v);
  auto dk = at::zeros(key.sizes(), key.options()), dv = at::zeros(value.sizes(), value.options());
  TensorList of_queries;
  for_tiles(pair, q.size(1), [&](int64_t begin, int64_t count) {
    auto tile = [&](const Tensor& x) { return by_key_head(x.narrow(0, begin, count), kv_heads); };
    const auto query = tile(q), dy = tile(grad);
    auto lse = whole.lse.narrow(1, begin, count).reshape({kv_heads, -1, 1});
    auto weights = tile_scores(query, key, pair, begin, count, scale).sub_(lse).exp_();
    dv.add_(at::matmul(weights.transpose(1, 2), dy));
    auto inner = (dy * tile(whole.out)).sum(-1, /*keepdim=*/true);
    auto scores_grad = at::matmul(dy, value.transpose(1, 2)).sub_(inner).mul_(weights).mul_(scale);
    dk.add_(at::matmul(scores_grad.transpose(1, 2), query));
    of_queries.push_back(by_query(at::matmul(scores_grad, key), count));
  });
  return {at::cat(of_queries), dk.transpose(0, 1), dv.transpose(0, 1)};
}

ChunkAttention chunk_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ChunkPair& pair, double scale) {
  HONE_CHECK(q.size(0) == pair.queries && k.size(0) == pair.keys, "{} queries and {} keys, expected {} and {}", q.size(0),
             k.size(0), pair.queries, pair.keys);
  if (fits_kernels(pair) && q.is_cpu()) {
    const int64_t heads = q.size(1);
    auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(batch_of(q, heads), batch_of(k, heads), batch_of(v, heads),
                                                                      0.0, is_causal(pair), std::nullopt, scale);
    return {out.squeeze(0).transpose(0, 1).to(q.scalar_type()), lse.squeeze(0).to(at::kFloat)};
  }
  if (fits_kernels(pair) && supports_flash(q, shape_of(q, k))) {
    auto found = at::_flash_attention_forward(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), std::nullopt, std::nullopt,
                                              pair.queries, pair.keys, 0.0, is_causal(pair), /*return_debug_mask=*/false, scale);
    return {std::get<0>(found).squeeze(0), std::get<1>(found).squeeze(0)};
  }
  if (fits_kernels(pair) && npu::supports_attention(q, shape_of(q, k)))
    return npu::chunk_attention(q, k, v, is_causal(pair), scale);
  return chunk_attention_plain(q, k, v, pair, scale);
}

ChunkGradients chunk_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const ChunkAttention& whole, const ChunkPair& pair, double scale) {
  if (fits_kernels(pair) && q.is_cpu()) {
    const int64_t heads = q.size(1);
    auto batch = [&](const Tensor& x) { return batch_of(x, heads); };
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(batch(grad), batch(q), batch(k), batch(v),
                                                                                 batch(whole.out), whole.lse.unsqueeze(0), 0.0,
                                                                                 is_causal(pair), std::nullopt, scale);
    return {dq.squeeze(0).transpose(0, 1), key_gradient(dk, k.size(1)), key_gradient(dv, k.size(1))};
  }
  if (fits_kernels(pair) && supports_flash(q, shape_of(q, k))) {
    auto batch = [](const Tensor& x) { return x.contiguous().unsqueeze(0); };
    auto state = at::empty({2}, at::TensorOptions(at::kUInt64).device(q.device()));  // of dropout, of which there is none
    auto found =
        at::_flash_attention_backward(batch(grad), batch(q), batch(k), batch(v), batch(whole.out), batch(whole.lse), Tensor(),
                                      Tensor(), pair.queries, pair.keys, 0.0, is_causal(pair), state, Tensor(), scale);
    return {std::get<0>(found).squeeze(0), std::get<1>(found).squeeze(0), std::get<2>(found).squeeze(0)};
  }
  if (fits_kernels(pair) && npu::supports_attention(q, shape_of(q, k)))
    return npu::chunk_attention_backward(grad, q, k, v, whole, is_causal(pair), scale);
  return chunk_attention_backward_plain(grad, q, k, v, whole, pair, scale);
}

}  // namespace hone::ops
