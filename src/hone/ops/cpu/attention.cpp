#include "hone/ops/cpu/attention.h"

#include "hone/device/autograd.h"
#include "hone/ops/cpu/panel_attention.h"
#include "hone/ops/cpu/short_attention.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Queries that share a key head become heads, key heads the batch. Keys are then broadcast with stride zero, without a copy.
Tensor grouped(const Tensor& x, const AttentionShape& shape) {  // [len, heads * d] -> [kv_heads, group, len, d]
  return x.view({x.size(0), shape.kv_heads, -1, shape.head_dim}).permute({1, 2, 0, 3});
}
Tensor repeated(const Tensor& x, const AttentionShape& shape) {  // [len, kv_heads * d] -> the same, each head seen `group` times
  int64_t length = x.size(0);
  return x.view({length, shape.kv_heads, 1, shape.head_dim})
      .permute({1, 2, 0, 3})
      .expand({shape.kv_heads, shape.heads / shape.kv_heads, length, shape.head_dim});
}

Tensor heads_first(const Tensor& x, const AttentionShape& shape) {  // [len, kv_heads * d] -> [kv_heads, len, d]
  return x.view({x.size(0), shape.kv_heads, shape.head_dim}).transpose(0, 1);
}

// A mask for cases that the kernel's two modes (full, and causal from the first key) do not cover: a window shorter than the
// keys, or queries that start later.
std::optional<Tensor> extra_mask(int64_t queries, int64_t keys, const AttentionShape& shape, at::ScalarType dtype) {
  const int64_t window = shape.window;
  bool narrow = window > 0 && window < keys;
  if ((queries == keys || !shape.causal) && !narrow) return std::nullopt;
  auto query = at::arange(keys - queries, keys).unsqueeze(1), key = at::arange(keys).unsqueeze(0);
  auto hidden = shape.causal ? key > query : key >= query + window;
  if (narrow) hidden = hidden.logical_or(key <= query - window);
  return at::zeros({1, 1, queries, keys}, at::TensorOptions(dtype))
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

// libtorch's kernel is scalar for 16-bit types without native instructions: such a segment is upcast.
Tensor as_computed(const Tensor& x) { return is_upcast(x) ? x.to(at::kFloat) : x; }

struct SegmentView {
  Tensor q, k, v;
  std::optional<Tensor> mask;
  bool causal;  // without an explicit mask
};

class Attention : public torch::autograd::Function<Attention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments,
                        const AttentionShape& shape) {
    auto out = at::empty_like(q);
    auto normalizers = at::empty({q.size(0) * shape.heads}, q.options().dtype(at::kFloat));
    std::vector<std::pair<int64_t, int64_t>> short_ones;
    for (int64_t i = 0; i < segments.count(); ++i) {
      if (segments.length(i) == 0) continue;
      auto [begin, length] = range(segments, i);
      if (length <= kShortSequence) {
        short_ones.emplace_back(begin, length);
        continue;
      }
      auto normalizer = normalizers.narrow(0, begin * shape.heads, length * shape.heads);
      if (has_panel_attention(q)) {
        auto rows = [&](const Tensor& x) { return x.narrow(0, begin, length); };
        panel_attention(rows(q), heads_first(rows(k), shape), heads_first(rows(v), shape), shape, rows(out), normalizer);
        continue;
      }
      auto view = view_of(q, k, v, begin, length, shape);
      auto [values, logsumexp] =
          at::_scaled_dot_product_flash_attention_for_cpu(view.q, view.k, view.v, 0.0, view.causal, view.mask, shape.scale);
      grouped(out.narrow(0, begin, length), shape).copy_(values);
      normalizer.view(logsumexp.sizes()).copy_(logsumexp);
    }
    if (!short_ones.empty())
      (has_panel_attention(q) ? panel_attention_within : short_attention)(short_ones, shape, q, k, v, out, normalizers);
    ctx->save_for_backward({q, k, v, out, normalizers});
    ctx->saved_data["offsets"] = segments.offsets;
    ctx->saved_data["shape"] = std::vector<int64_t>{shape.heads, shape.kv_heads, shape.head_dim, shape.window, shape.causal};
    ctx->saved_data["scale"] = shape.scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto numbers = ctx->saved_data["shape"].toIntVector();
    AttentionShape shape{numbers[0], numbers[1], numbers[2], ctx->saved_data["scale"].toDouble(), numbers[3], numbers[4] != 0};
    CuSeqlens segments{ctx->saved_data["offsets"].toIntVector()};
    auto q = saved[0].detach(), k = saved[1].detach(), v = saved[2].detach(), out = saved[3].detach(), normalizers = saved[4];
    auto dout = grads[0].contiguous();
    auto dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
    std::vector<std::pair<int64_t, int64_t>> short_ones, in_panels;
    for (int64_t i = 0; i < segments.count(); ++i) {
      if (segments.length(i) == 0) continue;
      auto [begin, length] = range(segments, i);
      if (length <= kShortSequence && (q.scalar_type() == at::kFloat || !has_panel_attention(q))) {
        short_ones.emplace_back(begin, length);
        continue;
      }
      if (has_panel_attention(q)) {
        in_panels.emplace_back(begin, length);
        continue;
      }
      auto view = view_of(q, k, v, begin, length, shape);
      auto logsumexp = normalizers.narrow(0, begin * shape.heads, length * shape.heads).view({shape.kv_heads, -1, length});
      auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grouped(as_computed(dout.narrow(0, begin, length)), shape), view.q, view.k, view.v,
          grouped(as_computed(out.narrow(0, begin, length)), shape), logsumexp, 0.0, view.causal, view.mask, shape.scale);
      grouped(dq.narrow(0, begin, length), shape).copy_(gq);
      add_up(dk.narrow(0, begin, length), gk, shape);
      add_up(dv.narrow(0, begin, length), gv, shape);
    }
    const AttentionGradients tensors{
        .q = q, .k = k, .v = v, .out = out, .dout = dout, .logsumexp = normalizers, .dq = dq, .dk = dk, .dv = dv};
    if (!short_ones.empty()) short_attention_backward(short_ones, shape, tensors);
    if (!in_panels.empty()) panel_attention_backward(in_panels, shape, tensors);
    return {dq, dk, dv, Tensor(), Tensor()};
  }

 private:
  static std::pair<int64_t, int64_t> range(const CuSeqlens& segments, int64_t i) {
    return {segments.offsets[static_cast<size_t>(i)], segments.length(i)};
  }
  static SegmentView view_of(const Tensor& q, const Tensor& k, const Tensor& v, int64_t begin, int64_t length,
                             const AttentionShape& shape) {
    auto rows = [&](const Tensor& x) { return as_computed(x.narrow(0, begin, length)); };
    auto queries = rows(q);
    auto mask = extra_mask(length, length, shape, queries.scalar_type());
    const bool causal = shape.causal && !mask;
    return {grouped(queries, shape), repeated(rows(k), shape), repeated(rows(v), shape), std::move(mask), causal};
  }
  // The gradient of a key head is the sum over the queries that share it.
  static void add_up(const Tensor& to, const Tensor& grad, const AttentionShape& shape) {
    to.view({to.size(0), shape.kv_heads, shape.head_dim}).permute({1, 0, 2}).copy_(grad.sum(1));
  }
};

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments, const AttentionShape& shape) {
  return Attention::apply(q.contiguous(), k.contiguous(), v.contiguous(), segments, shape);
}

void attention_with_prefix(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out) {
  if (has_panel_attention(q)) return panel_attention(q, k, v, shape, out, {});
  auto seen_by_group = [&](const Tensor& x) {
    return as_computed(x).unsqueeze(1).expand({shape.kv_heads, shape.heads / shape.kv_heads, x.size(1), shape.head_dim});
  };
  auto queries = as_computed(q);
  auto mask = extra_mask(q.size(0), k.size(1), shape, queries.scalar_type());
  auto [values, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      grouped(queries, shape), seen_by_group(k), seen_by_group(v), 0.0, shape.causal && !mask, mask, shape.scale);
  grouped(out, shape).copy_(values);
}

}  // namespace hone::ops::cpu
