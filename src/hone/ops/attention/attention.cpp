#include "hone/ops/attention/attention.h"

#include "hone/base/error.h"
#include "hone/ops/attention/block_attention.h"
#include "hone/ops/attention/even_attention.h"
#include "hone/ops/cpu/attention.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

// float32 [queries, keys], 0 where a query may attend and -inf elsewhere; the last query is aligned with the last key.
Tensor visibility(int64_t queries, int64_t keys, const AttentionShape& shape, at::Device device) {
  auto options = at::TensorOptions(at::kLong).device(device);
  auto query = at::arange(keys - queries, keys, options).unsqueeze(1), key = at::arange(keys, options).unsqueeze(0);
  auto hidden = shape.causal ? key > query : at::zeros({queries, keys}, options.dtype(at::kBool));
  if (shape.window > 0) hidden = hidden.logical_or(key <= query - shape.window).logical_or(key >= query + shape.window);
  return at::zeros({queries, keys}, options.dtype(at::kFloat)).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

// [len, heads * d] -> [heads, len, d], each key head repeated for the queries that share it.
Tensor by_head(const Tensor& x, int64_t heads, int64_t repeat = 1) {
  auto split = x.view({x.size(0), heads, -1}).transpose(0, 1);
  return repeat == 1 ? split : split.repeat_interleave(repeat, 0);
}

Tensor segment_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape) {
  int64_t group = shape.heads / shape.kv_heads;
  auto scores =
      at::matmul(by_head(q, shape.heads), by_head(k, shape.kv_heads, group).transpose(1, 2)).to(at::kFloat) * shape.scale;
  auto weights = at::softmax(scores + visibility(q.size(0), k.size(0), shape, q.device()), -1).to(q.scalar_type());
  return at::matmul(weights, by_head(v, shape.kv_heads, group)).transpose(0, 1).reshape({q.size(0), -1});
}

std::optional<c10::SymInt> window_left(const AttentionShape& shape) {
  return shape.window > 0 ? std::optional<c10::SymInt>(shape.window - 1) : std::nullopt;
}

Tensor memory_efficient(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                        const AttentionShape& shape) {
  constexpr int64_t kNoMask = 0, kCausalFromTopLeft = 1;
  int64_t tokens = q.size(0), longest = metadata.segments.longest(), group = shape.heads / shape.kv_heads;
  auto heads = [&](const Tensor& x, int64_t count, int64_t repeat) {
    auto split = x.view({tokens, count, -1});
    return (repeat == 1 ? split : split.repeat_interleave(repeat, 1)).unsqueeze(0);
  };
  auto out = at::_efficient_attention_forward(heads(q, shape.heads, 1), heads(k, shape.kv_heads, group),
                                              heads(v, shape.kv_heads, group), std::nullopt, metadata.offsets, metadata.offsets,
                                              longest, longest, 0.0, shape.causal ? kCausalFromTopLeft : kNoMask,
                                              /*compute_log_sumexp=*/true, shape.scale);
  return std::get<0>(out).reshape({tokens, -1});
}

// The sequences [begin, end) of a row, which have the same kind of attention.
Tensor attend_run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata, int64_t begin,
                  int64_t end, AttentionShape shape, decltype(attention)* attend) {
  CuSeqlens segments;
  for (int64_t i = begin; i < end; ++i) segments.append(metadata.segments.length(i));
  shape.causal = metadata.kinds[static_cast<size_t>(begin)] == AttentionKind::causal;
  auto rows = [&](const Tensor& x) {
    return x.narrow(0, metadata.segments.offsets[static_cast<size_t>(begin)], segments.total());
  };
  return attend(rows(q), rows(k), rows(v), attention_metadata(segments, q.device()), shape);
}

// Adjacent sequences of one kind are computed together.
Tensor attend_by_kind(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                      const AttentionShape& shape, decltype(attention)* attend) {
  const auto& kinds = metadata.kinds;
  HONE_CHECK(static_cast<int64_t>(kinds.size()) == metadata.segments.count(), "{} kinds of attention for {} segments",
             kinds.size(), metadata.segments.count());
  TensorList outputs;
  for (size_t begin = 0, end = 0; begin < kinds.size(); begin = end) {
    while (end < kinds.size() && kinds[end] == kinds[begin]) ++end;
    outputs.push_back(attend_run(q, k, v, metadata, static_cast<int64_t>(begin), static_cast<int64_t>(end), shape, attend));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs);
}

}  // namespace

Tensor attention_with_prefix_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape) {
  return segment_plain(q, k, v, shape);
}

bool supports_flash(const Tensor& q, const AttentionShape& shape) {
  return q.is_cuda() && q.scalar_type() != at::kFloat && shape.head_dim <= 256 && shape.head_dim % 8 == 0;
}

Tensor flash_attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& queries,
                              const AttentionMetadata& keys, const AttentionShape& shape) {
  int64_t longest = keys.segments.longest();
  auto window = shape.window > 0 && longest > shape.window ? window_left(shape) : std::nullopt;
  auto right = !window ? std::nullopt : shape.causal ? std::optional<c10::SymInt>(0) : window;
  auto by_heads = [](const Tensor& x, int64_t heads) { return x.view({x.size(0), heads, -1}); };
  auto out = at::_flash_attention_forward_symint(by_heads(q, shape.heads), by_heads(k, shape.kv_heads),
                                                 by_heads(v, shape.kv_heads), queries.offsets, keys.offsets,
                                                 queries.segments.longest(), longest, 0.0, /*is_causal=*/shape.causal,
                                                 /*return_debug_mask=*/false, shape.scale, window, right);
  return std::get<0>(out).view({q.size(0), -1});
}

AttentionMetadata attention_metadata(const CuSeqlens& segments, at::Device device, std::vector<AttentionKind> kinds) {
  AttentionMetadata metadata{segments, {}, std::move(kinds)};
  if (device.is_cuda())
    metadata.offsets = at::tensor(segments.offsets, at::TensorOptions(at::kInt)).to(device, /*non_blocking=*/true);
  return metadata;
}

Tensor attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                       const AttentionShape& shape) {
  if (!metadata.kinds.empty()) return attend_by_kind(q, k, v, metadata, shape, attention_plain);
  TensorList outputs;
  for (int64_t i = 0; i < metadata.segments.count(); ++i) {
    int64_t begin = metadata.segments.offsets[static_cast<size_t>(i)], length = metadata.segments.length(i);
    outputs.push_back(segment_plain(q.narrow(0, begin, length), k.narrow(0, begin, length), v.narrow(0, begin, length), shape));
  }
  return at::cat(outputs);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                 const AttentionShape& shape) {
  HONE_CHECK(metadata.segments.total() == q.size(0), "{} tokens in {} of segments", q.size(0), metadata.segments.total());
  if (!metadata.kinds.empty()) return attend_by_kind(q, k, v, metadata, shape, attention);
  if (!metadata.blocks.empty()) return attention_with_blocks(q, k, v, metadata, shape);
  if (cpu::supports(q)) return cpu::attention(q, k, v, metadata.segments, shape);
  if (npu::supports_attention(q, shape)) return npu::attention(q, k, v, metadata.segments, shape);
  if (supports_even(q, metadata, shape)) return even_attention(q, k, v, metadata, shape);
  if (supports_flash(q, shape)) return flash_attention_varlen(q, k, v, metadata, metadata, shape);
  // With a window, that kernel's gradient of the values is wrong (observed with libtorch 2.11).
  bool windowed = shape.window > 0 && metadata.segments.longest() > shape.window;
  if (q.is_cuda() && !windowed) return memory_efficient(q, k, v, metadata, shape);
  return attention_plain(q, k, v, metadata, shape);
}

}  // namespace hone::ops
