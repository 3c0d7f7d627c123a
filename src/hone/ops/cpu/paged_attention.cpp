#include "hone/ops/cpu/paged_attention.h"

#include "hone/ops/attention/kv_quantization.h"
#include "hone/ops/cpu/attention.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/kv_quantization.h"
#include "hone/ops/cpu/parallel.h"

namespace hone::ops::cpu {
namespace {

// A run of tokens within one sequence: copies between the packed row [T, kv_heads * d] and the blocks.
template <class T>
void store_token(const T* from, T* cache, int64_t slot, int64_t kv_heads, int64_t block_size, int64_t head_dim) {
  int64_t block = slot / block_size, offset = slot % block_size;
  for (int64_t head = 0; head < kv_heads; ++head)
    std::copy_n(from + head * head_dim, head_dim, cache + ((block * kv_heads + head) * block_size + offset) * head_dim);
}

void store(const Tensor& k, const Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& metadata) {
  int64_t kv_heads = cache.keys.size(1), block_size = cache.block_size(), head_dim = cache.keys.size(3),
          width = kv_heads * head_dim;
  const auto* slots = metadata.slot_mapping_t.const_data_ptr<int32_t>();
  with_type(k.scalar_type(), [&](auto type) {
    using T = decltype(type);
    for (auto [from, to] : {std::pair(&k, &cache.keys), std::pair(&v, &cache.values)}) {
      const auto* rows = from->template const_data_ptr<T>();
      auto* blocks = to->template mutable_data_ptr<T>();
      parallel_pieces(k.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          if (slots[t] >= 0) store_token(rows + t * width, blocks, slots[t], kv_heads, block_size, head_dim);
      });
    }
  });
}

void store_quantized(const Tensor& rows, Tensor& codes, Tensor& scales, KvCacheDtype code,
                     const PagedAttentionMetadata& metadata) {
  int64_t kv_heads = codes.size(1), block_size = codes.size(2), bytes = codes.size(3), head_dim = rows.size(1) / kv_heads;
  auto floats = rows.to(at::kFloat);
  const auto* from = floats.const_data_ptr<float>();
  const auto* slots = metadata.slot_mapping_t.const_data_ptr<int32_t>();
  auto* to = codes.mutable_data_ptr<uint8_t>();
  auto* steps = scales.defined() ? scales.mutable_data_ptr<float>() : nullptr;
  parallel_pieces(rows.size(0) * kv_heads, row_grain(head_dim), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t slot = slots[i / kv_heads], head = i % kv_heads;
      if (slot < 0) continue;
      int64_t place = (slot / block_size * kv_heads + head) * block_size + slot % block_size;
      quantize_kv_row(from + i * head_dim, head_dim, code, to + place * bytes, steps ? steps + place * 2 : nullptr);
    }
  });
}

// Sequence i's keys or values in order, heads first: [kv_heads, length, d].
Tensor gathered_heads(const Tensor& cache, const Tensor& scales, KvCacheDtype code, const PagedAttentionMetadata& metadata,
                      int64_t i, at::ScalarType dtype) {
  int64_t length = metadata.lengths[static_cast<size_t>(i)], block_size = cache.size(2),
          blocks = (length + block_size - 1) / block_size;
  auto table = metadata.block_tables.narrow(0, metadata.table_begins_s.const_data_ptr<int32_t>()[i], blocks);
  auto pages = [&](const Tensor& of) { return of.defined() ? of.index_select(0, table) : Tensor(); };
  auto values = code == KvCacheDtype::plain ? pages(cache) : dequantize_kv({pages(cache), pages(scales)}, code, dtype);
  return values.transpose(0, 1).reshape({values.size(1), blocks * block_size, values.size(3)}).narrow(1, 0, length);
}

void attend_prompt(const Tensor& q, const Tensor& k, const Tensor& v, const KvCacheLayer& cache,
                   const PagedAttentionMetadata& metadata, const AttentionShape& shape, int64_t i, Tensor& out) {
  int64_t begin = metadata.segments.offsets[static_cast<size_t>(i)], queries = metadata.segments.length(i),
          keys = metadata.lengths[static_cast<size_t>(i)];
  auto rows = [&](const Tensor& x) { return x.narrow(0, begin, queries); };
  auto fresh = [&](const Tensor& x) { return rows(x).view({queries, shape.kv_heads, shape.head_dim}).transpose(0, 1); };
  // Quantized keys and values are read back, so that results do not depend on how the prompt was chunked.
  bool read_back = queries < keys || cache.code != KvCacheDtype::plain;
  auto kept = [&](const Tensor& of, const Tensor& scales) {
    return gathered_heads(of, scales, cache.code, metadata, i, q.scalar_type());
  };
  attention_with_prefix(rows(q), read_back ? kept(cache.keys, cache.key_scales) : fresh(k),
                        read_back ? kept(cache.values, cache.value_scales) : fresh(v), shape, rows(out));
}

}  // namespace

Tensor paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                       const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  if (cache.code == KvCacheDtype::plain) {
    store(k, v, cache, metadata);
  } else {
    store_quantized(k, cache.keys, cache.key_scales, cache.code, metadata);
    store_quantized(v, cache.values, cache.value_scales, cache.code, metadata);
  }
  auto out = at::empty(q.sizes(), q.options());
  if (metadata.num_decodes == q.size(0)) {
    paged_decode(q, cache, metadata, shape, out);
  } else if (metadata.num_decodes > 0) {
    auto rows = out.narrow(0, 0, metadata.num_decodes);
    paged_decode(q.narrow(0, 0, metadata.num_decodes), cache, metadata, shape, rows);
  }
  for (int64_t i = metadata.num_decodes; i < metadata.segments.count(); ++i)
    attend_prompt(q, k, v, cache, metadata, shape, i, out);
  return out;
}

}  // namespace hone::ops::cpu
