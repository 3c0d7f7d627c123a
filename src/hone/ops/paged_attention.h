// Attention over keys and values that lie in blocks of a shared cache: the inference form of attention.h.
#pragma once
#include <span>

#include "hone/ops/attention.h"
#include "hone/ops/cache_code.h"

namespace hone::ops {

// One layer's cache: [blocks, kv_heads, block_size, head_dim]; in fewer bits bytes of coded_rows.h, with [blocks, kv_heads, block_size, 2]
// scales where the code has them.
struct PagedKeys {
  Tensor keys, values;
  CacheCode code = CacheCode::plain;
  Tensor key_scales = {}, value_scales = {};
  int64_t block_size() const { return keys.size(2); }
};

// What every layer of one step shares. Sequences with a single new token stand first; `decodes` counts them.
struct PagedPlan {
  Segments segments;             // the new tokens of each sequence, end to end
  int64_t decodes = 0;
  std::vector<int64_t> lengths;  // of each sequence with its new tokens
  // int32 on the device: where each new token goes (block * block_size + offset; -1: nowhere), each sequence's blocks one list behind
  // the other, where its list begins, and its length.
  Tensor slots_t, tables, table_begins_s, lengths_s;
};

// A sequence of which `past` tokens are in the cache and `count` come now; its blocks have room for all of them.
struct PagedSequence {
  int64_t past, count;
  std::span<const int32_t> blocks;
};
PagedPlan paged_plan(const std::vector<PagedSequence>& sequences, int64_t block_size, at::Device device);
PagedPlan moved(PagedPlan plan, at::Device device);  // its tensors on another device

PagedKeys empty_pages(int64_t blocks, int64_t kv_heads, int64_t block_size, int64_t head_dim, at::TensorOptions options, CacheCode code = CacheCode::plain);
int64_t bytes_of_a_position(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, CacheCode code);  // its key and its value

// Stores the new k and v [T, kv_heads * head_dim], then answers q [T, heads * head_dim]. The plain form is the oracle of the others.
Tensor paged_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, PagedKeys& cache, const PagedPlan& plan, const AttentionShape& shape);
Tensor paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, PagedKeys& cache, const PagedPlan& plan, const AttentionShape& shape);

}  // namespace hone::ops
