#include "hone/ops/attention/fused_qkv_attention.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/rope.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/rms_norm.h"

namespace hone::ops {
namespace {

Tensor normed(const Tensor& x, const Tensor& weight, const QkNorm& norms, int64_t head_dim) {
  return weight.defined() ? rms_norm(x.view({x.size(0), -1, head_dim}), weight, norms.eps).view(x.sizes()) : x;
}

// Whether one kernel of ours does what normed() and rope() would do.
bool splits_on_cpu(const Tensor& qkv, const QkNorm& norms, const RopeTable& table, const AttentionShape& shape) {
  auto has_its_type = [&](const Tensor& weight) { return !weight.defined() || weight.scalar_type() == qkv.scalar_type(); };
  const bool has_norms = norms.q.defined() || norms.k.defined();
  return cpu::supports(qkv) && !at::GradMode::is_enabled() && qkv.is_contiguous() && qkv.numel() > 0 && fused_operators().rope &&
         (fused_operators().rms_norm || !has_norms) && 2 * table.cos.size(1) == shape.head_dim && has_its_type(norms.q) &&
         has_its_type(norms.k);
}

}  // namespace

bool benefits_from_fused_qkv(const Tensor& weight, const AttentionShape& shape) {
  return weight.is_cpu() || cuda::supports_paged(weight, shape);
}

Tensor fused_qkv_attention(const Tensor& qkv, const QkNorm& norms, const RopeTable& table, KvCacheLayer& cache,
                           const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  int64_t q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  if (cuda::supports_paged(qkv, shape, cache.code, cache.block_size())) {
    const bool has_prompts = metadata.num_decodes < metadata.segments.count();
    const auto [q, k, v] = cuda::qk_norm_rope_store_kv(qkv, norms, table, cache, metadata, shape, has_prompts);
    return stored_attention_on_gpu(q, k, v, cache, metadata, shape);
  }
  if (splits_on_cpu(qkv, norms, table, shape)) {
    const auto [q, k, v] = cpu::split_qkv(qkv, norms, table, shape.heads, shape.kv_heads);
    return paged_attention(q, k, v, cache, metadata, shape);
  }
  auto part = [&](int64_t begin, int64_t width) { return qkv.narrow(1, begin, width).contiguous(); };
  auto q = rope(normed(part(0, q_width), norms.q, norms, shape.head_dim), table);
  auto k = rope(normed(part(q_width, kv_width), norms.k, norms, shape.head_dim), table);
  return paged_attention(q, k, part(q_width + kv_width, kv_width), cache, metadata, shape);
}

}  // namespace hone::ops
