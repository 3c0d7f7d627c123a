#include "hone/ops/attention/paged_attention.h"

#include "hone/base/error.h"
#include "hone/ops/attention/block_attention.h"
#include "hone/ops/attention/kv_quantization.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/paged_attention.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/npu/paged_attention.h"

namespace hone::ops {
namespace {

void store_plain(const Tensor& k, const Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& metadata) {
  auto slots = metadata.slot_mapping_t.to(at::kLong);
  auto block = at::div(slots, cache.block_size(), "floor"), offset = at::remainder(slots, cache.block_size());
  auto put = [&](Tensor& to, const Tensor& rows) {
    to.index_put_({block, at::indexing::TensorIndex(at::indexing::Slice()), offset}, rows);
  };
  auto by_head = [&](const Tensor& x) { return x.view({x.size(0), cache.keys.size(1), -1}); };
  if (cache.code == KvCacheDtype::plain) {
    put(cache.keys, by_head(k)), put(cache.values, by_head(v));
    return;
  }
  auto keys = quantize_kv(by_head(k), cache.code), values = quantize_kv(by_head(v), cache.code);
  put(cache.keys, keys.codes), put(cache.values, values.codes);
  if (has_scales(cache.code)) put(cache.key_scales, keys.scales), put(cache.value_scales, values.scales);
}

struct GatheredKeys {
  Tensor keys, values;  // [length, kv_heads * head_dim]
};

// The keys and values of sequence i in order, in the compute dtype.
GatheredKeys gathered(const KvCacheLayer& cache, const PagedAttentionMetadata& metadata, int64_t i, at::ScalarType dtype) {
  int64_t block_size = cache.block_size(), length = metadata.lengths[static_cast<size_t>(i)],
          blocks = (length + block_size - 1) / block_size;
  int64_t begin = 0;
  for (int64_t j = 0; j < i; ++j) begin += (metadata.lengths[static_cast<size_t>(j)] + block_size - 1) / block_size;
  auto table = metadata.block_tables.narrow(0, begin, blocks);
  auto pages = [&](const Tensor& of) { return of.defined() ? of.index_select(0, table) : Tensor(); };
  auto rows = [&](const Tensor& of, const Tensor& scales) {
    auto values = cache.code == KvCacheDtype::plain ? pages(of) : dequantize_kv({pages(of), pages(scales)}, cache.code, dtype);
    return values.transpose(1, 2).reshape({blocks * block_size, -1}).narrow(0, 0, length);
  };
  return {rows(cache.keys, cache.key_scales), rows(cache.values, cache.value_scales)};
}

// Queries that continue a sequence: rows of a packed layout whose keys are longer than its queries.
Tensor continued(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata, const AttentionShape& shape,
                 int64_t first) {
  TensorList outputs;
  for (int64_t i = first; i < metadata.segments.count(); ++i) {
    auto rows = q.narrow(0, metadata.segments.offsets[static_cast<size_t>(i)], metadata.segments.length(i));
    auto [keys, values] = gathered(cache, metadata, i, q.scalar_type());
    outputs.push_back(attention_with_prefix_plain(rows, keys, values, shape));
  }
  return outputs.empty() ? q.narrow(0, 0, 0) : at::cat(outputs);
}

// New keys or values as a later step will read them, so that a prompt gives the same results whole or in chunks.
Tensor as_cached(const Tensor& rows, const KvCacheLayer& cache) {
  if (cache.code == KvCacheDtype::plain) return rows;
  const auto by_head = rows.reshape({rows.size(0), cache.keys.size(1), -1});
  return dequantize_kv(quantize_kv(by_head, cache.code), cache.code, rows.scalar_type()).view(rows.sizes());
}

// Prompts on a GPU, keys and values as the cache has them: libtorch's variable-length kernel, over the new keys alone if no
// sequence has cached tokens.
Tensor prompts_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, const KvCacheLayer& cache,
                      const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  if (!supports_flash(q, shape)) return continued(q, cache, metadata, shape, metadata.num_decodes);
  CuSeqlens keys;
  bool has_past = false;
  for (int64_t i = metadata.num_decodes; i < metadata.segments.count(); ++i) {
    keys.append(metadata.lengths[static_cast<size_t>(i)]);
    has_past |= keys.length(keys.count() - 1) != metadata.segments.length(i);
  }
  const int64_t first = metadata.segments.offsets[static_cast<size_t>(metadata.num_decodes)];
  auto rows = [&](const Tensor& x) { return x.narrow(0, first, x.size(0) - first); };
  if (!has_past)  // not `attention`: cuDNN may spend a second on a plan for a length that no other prompt has
    return flash_attention_varlen(rows(q), rows(k), rows(v), metadata.prompts, metadata.prompts, shape);
  TensorList all_keys, all_values;
  for (int64_t i = metadata.num_decodes; i < metadata.segments.count(); ++i) {
    const int64_t begin = metadata.segments.offsets[static_cast<size_t>(i)], count = metadata.segments.length(i);
    if (metadata.lengths[static_cast<size_t>(i)] == count) {  // all keys are new
      all_keys.push_back(k.narrow(0, begin, count)), all_values.push_back(v.narrow(0, begin, count));
      continue;
    }
    auto [past_keys, past_values] = gathered(cache, metadata, i, q.scalar_type());
    all_keys.push_back(past_keys), all_values.push_back(past_values);
  }
  return flash_attention_varlen(rows(q), at::cat(all_keys), at::cat(all_values), metadata.prompts,
                                attention_metadata(keys, q.device()), shape);
}

// Decodes by the NPU's kernel, prompts by the plain composition.
Tensor on_npu(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
              const AttentionShape& shape) {
  store_plain(k, v, cache, metadata);
  if (metadata.num_decodes == 0) return continued(q, cache, metadata, shape, 0);
  auto decoded = npu::paged_decode(q.narrow(0, 0, metadata.num_decodes), cache, metadata, shape);
  return metadata.num_decodes == metadata.segments.count()
             ? decoded
             : at::cat({decoded, continued(q, cache, metadata, shape, metadata.num_decodes)});
}

Tensor attend_stored(const Tensor& q, const Tensor& k, const Tensor& v, const KvCacheLayer& cache,
                     const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  if (metadata.num_decodes == metadata.segments.count()) return cuda::paged_decode(q, cache, metadata, shape);
  auto prompts = prompts_on_gpu(q, k, v, cache, metadata, shape);
  if (metadata.num_decodes == 0) return prompts;
  return at::cat({cuda::paged_decode(q.narrow(0, 0, metadata.num_decodes), cache, metadata, shape), prompts});
}

Tensor attend_causally(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                       const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  if (cpu::supports(q)) return cpu::paged_attention(q.contiguous(), k.contiguous(), v.contiguous(), cache, metadata, shape);
  if (cuda::supports_paged(q, shape, cache.code, cache.block_size())) {
    cuda::store_kv(k, v, cache, metadata);
    if (metadata.num_decodes == metadata.segments.count()) return attend_stored(q, k, v, cache, metadata, shape);
    return attend_stored(q, as_cached(k, cache), as_cached(v, cache), cache, metadata, shape);
  }
  if (cache.code == KvCacheDtype::plain && npu::supports_paged(q, cache, shape)) return on_npu(q, k, v, cache, metadata, shape);
  return paged_attention_plain(q, k, v, cache, metadata, shape);
}

// Recomputes the rows of images, now that the cache has all their keys.
void attend_blocks(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                   const AttentionShape& shape, const Tensor& out) {
  int64_t i = 0;
  for (const auto& [begin, end] : metadata.blocks) {
    while (metadata.segments.offsets[static_cast<size_t>(i) + 1] <= begin) ++i;
    const int64_t first = metadata.segments.offsets[static_cast<size_t>(i)],
                  past = metadata.lengths[static_cast<size_t>(i)] - metadata.segments.length(i);
    auto [keys, values] = gathered(cache, metadata, i, q.scalar_type());
    const int64_t seen = past + end - first;
    out.narrow(0, begin, end - begin)
        .copy_(attend_block(q.narrow(0, begin, end - begin), keys.narrow(0, 0, seen), values.narrow(0, 0, seen), shape));
  }
}

}  // namespace

Tensor paged_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                             const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  store_plain(k, v, cache, metadata);
  return continued(q, cache, metadata, shape, 0);
}

Tensor paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                       const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  auto out = attend_causally(q, k, v, cache, metadata, shape);
  attend_blocks(q, cache, metadata, shape, out);
  return out;
}

Tensor stored_attention_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, const KvCacheLayer& cache,
                               const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  auto out = attend_stored(q, k, v, cache, metadata, shape);
  attend_blocks(q, cache, metadata, shape, out);
  return out;
}

}  // namespace hone::ops
