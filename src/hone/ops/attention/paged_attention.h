// Attention over keys and values in blocks of a shared cache: the inference form of attention.h.
#pragma once
#include <span>

#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/kv_cache_dtype.h"

namespace hone::ops {

// One layer's cache: [blocks, kv_heads, block_size, head_dim]; if quantized, bytes of kv_quantization.h, with [blocks, kv_heads,
// block_size, 2] scales if the format has them.
struct KvCacheLayer {
  Tensor keys, values;
  KvCacheDtype code = KvCacheDtype::plain;
  Tensor key_scales = {}, value_scales = {};
  int64_t block_size() const { return keys.size(2); }
};

// Metadata shared by all layers of one step. Sequences with a single new token come first; `num_decodes` counts them.
struct PagedAttentionMetadata {
  CuSeqlens segments;  // the new tokens of each sequence, end to end
  int64_t num_decodes = 0;
  std::vector<int64_t> lengths;  // of each sequence with its new tokens
  // int32 on the device: the slot of each new token (block * block_size + offset; -1: none), the block lists of all sequences,
  // the start of each list, and the lengths.
  Tensor slot_mapping_t, block_tables, table_begins_s, lengths_s;
  Tensor decode_chunks = {};          // on a GPU: how the decodes are shared out (decode_chunks.h)
  AttentionMetadata prompts = {};     // on a GPU: the segments after the decodes
  std::vector<RowBlock> blocks = {};  // of new tokens that see each other
};

// A sequence with `past` tokens in the cache and `count` new ones; its blocks have room for all of them.
struct PagedSequence {
  int64_t past, count;
  std::span<const int32_t> blocks;
};
PagedAttentionMetadata paged_attention_metadata(const std::vector<PagedSequence>& sequences, int64_t block_size,
                                                at::Device device);
PagedAttentionMetadata moved(PagedAttentionMetadata metadata, at::Device device);  // its tensors on another device

KvCacheLayer allocate_kv_cache_layer(int64_t blocks, int64_t kv_heads, int64_t block_size, int64_t head_dim,
                                     at::TensorOptions options, KvCacheDtype code = KvCacheDtype::plain);
int64_t kv_bytes_per_token(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, KvCacheDtype code);  // its key and its value

// Stores the new k and v [T, kv_heads * head_dim], then computes attention for q [T, heads * head_dim]. The plain form is the
// oracle of the others.
Tensor paged_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                             const PagedAttentionMetadata& metadata, const AttentionShape& shape);
Tensor paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                       const PagedAttentionMetadata& metadata, const AttentionShape& shape);
// The same on an NVIDIA GPU if the cache already has k and v. Both are read for prompts, as the cache has them (rounded, if it is
// of 8-bit floats); v may be columns of a wider tensor.
Tensor stored_attention_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, const KvCacheLayer& cache,
                               const PagedAttentionMetadata& metadata, const AttentionShape& shape);

}  // namespace hone::ops
