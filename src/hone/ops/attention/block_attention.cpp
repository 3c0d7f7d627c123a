#include "hone/ops/attention/block_attention.h"

#include <limits>

#include "hone/base/error.h"

namespace hone::ops {
namespace {

// Undefined if every row attends to every key. A row does not attend beyond its window.
std::optional<Tensor> hidden_before_window(int64_t queries, int64_t keys, int64_t window, const Tensor& like) {
  if (window == 0 || keys <= window) return std::nullopt;
  const auto options = at::TensorOptions(at::kLong).device(like.device());
  auto query = at::arange(keys - queries, keys, options).unsqueeze(1), key = at::arange(keys, options).unsqueeze(0);
  return at::zeros({queries, keys}, like.options()).masked_fill_(key <= query - window, -std::numeric_limits<double>::infinity());
}

int64_t segment_begin(const CuSeqlens& segments, int64_t row) {
  return *std::prev(std::upper_bound(segments.offsets.begin(), segments.offsets.end(), row));
}

}  // namespace

Tensor attend_block(const Tensor& q, Tensor k, Tensor v, const AttentionShape& shape) {
  // Leaves out keys that no row attends to: the first row is `queries` - 1 rows before the last.
  const int64_t queries = q.size(0), seen = shape.window > 0 ? shape.window + queries - 1 : k.size(0);
  if (const int64_t unseen = k.size(0) - seen; unseen > 0) k = k.narrow(0, unseen, seen), v = v.narrow(0, unseen, seen);
  auto heads = [&](const Tensor& x, int64_t count) {
    auto split = x.reshape({x.size(0), count, shape.head_dim}).transpose(0, 1);
    return (count == shape.heads ? split : split.repeat_interleave(shape.heads / count, 0)).unsqueeze(0);
  };
  const auto mask = hidden_before_window(queries, k.size(0), shape.window, q);
  const auto queries_h = heads(q, shape.heads), keys_h = heads(k, shape.kv_heads), values_h = heads(v, shape.kv_heads);
  Tensor out;
  if (q.is_cpu() || q.is_cuda()) {
    out = at::scaled_dot_product_attention(queries_h, keys_h, values_h, mask, 0.0, /*is_causal=*/false, shape.scale);
  } else {
    auto scores = at::matmul(queries_h, keys_h.transpose(2, 3)).to(at::kFloat) * shape.scale;
    if (mask) scores = scores + mask->to(at::kFloat);
    out = at::matmul(at::softmax(scores, -1).to(q.scalar_type()), values_h);
  }
  return out.squeeze(0).transpose(0, 1).reshape({queries, -1});
}

// Causal attention for all rows, then bidirectional blocks replace their rows.
Tensor attention_with_blocks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                             const AttentionShape& shape) {
  HONE_CHECK(shape.causal && metadata.kinds.empty(), "rows that see each other in a pass that is not causal");
  auto causal = metadata;
  causal.blocks.clear();
  const auto out = attention(q, k, v, causal, shape);
  TensorList parts;
  int64_t done = 0;
  for (const auto& [begin, end] : metadata.blocks) {
    const int64_t first = segment_begin(metadata.segments, begin);
    HONE_CHECK(begin >= done && end > begin && segment_begin(metadata.segments, end - 1) == first,
               "rows [{}, {}) of two segments", begin, end);
    if (begin > done) parts.push_back(out.narrow(0, done, begin - done));
    parts.push_back(
        attend_block(q.narrow(0, begin, end - begin), k.narrow(0, first, end - first), v.narrow(0, first, end - first), shape));
    done = end;
  }
  if (done < q.size(0)) parts.push_back(out.narrow(0, done, q.size(0) - done));
  return at::cat(parts);
}

}  // namespace hone::ops
