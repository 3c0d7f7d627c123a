#include "hone/ops/attention/decode_chunks.h"
#include "hone/ops/attention/kv_quantization.h"
#include "hone/ops/attention/paged_attention.h"

namespace hone::ops {

PagedAttentionMetadata paged_attention_metadata(const std::vector<PagedSequence>& sequences, int64_t block_size,
                                                at::Device device) {
  PagedAttentionMetadata metadata;
  std::vector<int32_t> slots, tables, begins, lengths;
  for (const auto& sequence : sequences) {
    if (sequence.count == 1 && metadata.num_decodes == metadata.segments.count()) ++metadata.num_decodes;
    int64_t length = sequence.past + sequence.count, blocks = (length + block_size - 1) / block_size;
    metadata.segments.append(sequence.count);
    metadata.lengths.push_back(length);
    lengths.push_back(static_cast<int32_t>(length));
    begins.push_back(static_cast<int32_t>(tables.size()));
    tables.insert(tables.end(), sequence.blocks.begin(), sequence.blocks.begin() + blocks);
    for (int64_t position = sequence.past; position < length; ++position)
      slots.push_back(
          static_cast<int32_t>(sequence.blocks[static_cast<size_t>(position / block_size)] * block_size + position % block_size));
  }
  auto tensor = [](const std::vector<int32_t>& values) { return at::tensor(values, at::TensorOptions(at::kInt)); };
  metadata.slot_mapping_t = tensor(slots);
  metadata.block_tables = tensor(tables);
  metadata.table_begins_s = tensor(begins);
  metadata.lengths_s = tensor(lengths);
  return moved(std::move(metadata), device);
}

KvCacheLayer allocate_kv_cache_layer(int64_t blocks, int64_t kv_heads, int64_t block_size, int64_t head_dim,
                                     at::TensorOptions options, KvCacheDtype code) {
  // On the CPU untouched memory costs nothing and is never read; GPU kernels read full blocks and multiply values past the end by
  // zero, so these must be finite.
  auto fresh = [&](int64_t width, at::TensorOptions kind) {
    std::vector<int64_t> shape{blocks, kv_heads, block_size, width};
    return kind.device().is_cpu() ? at::empty(shape, kind) : at::zeros(shape, kind);
  };
  if (code == KvCacheDtype::plain) return {fresh(head_dim, options), fresh(head_dim, options)};
  auto bytes = options.dtype(at::kByte), floats = options.dtype(at::kFloat);
  auto width = kv_row_bytes(code, head_dim);
  KvCacheLayer pages{fresh(width, bytes), fresh(width, bytes), code};
  if (has_scales(code)) pages.key_scales = fresh(2, floats), pages.value_scales = fresh(2, floats);
  return pages;
}

int64_t kv_bytes_per_token(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, KvCacheDtype code) {
  if (code == KvCacheDtype::plain) return 2 * kv_heads * head_dim * static_cast<int64_t>(c10::elementSize(dtype));
  int64_t scales = has_scales(code) ? 2 * static_cast<int64_t>(sizeof(float)) : 0;
  return 2 * kv_heads * (kv_row_bytes(code, head_dim) + scales);
}

PagedAttentionMetadata moved(PagedAttentionMetadata metadata, at::Device device) {
  for (auto* tensor : {&metadata.slot_mapping_t, &metadata.block_tables, &metadata.table_begins_s, &metadata.lengths_s})
    *tensor = tensor->to(device);
  if (device.is_cuda() && metadata.num_decodes > 0) {
    const auto decodes = static_cast<size_t>(metadata.num_decodes);
    metadata.decode_chunks =
        at::tensor(decode_chunks(std::span(metadata.lengths).first(decodes), metadata.num_decodes), at::TensorOptions(at::kInt))
            .to(device);
  }
  if (device.is_cuda() && metadata.num_decodes < metadata.segments.count()) {
    CuSeqlens prompts;
    for (int64_t i = metadata.num_decodes; i < metadata.segments.count(); ++i) prompts.append(metadata.segments.length(i));
    metadata.prompts = attention_metadata(prompts, device);
  }
  return metadata;
}

}  // namespace hone::ops
