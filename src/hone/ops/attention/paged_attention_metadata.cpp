#include "hone/ops/attention/decode_chunks.h"
#include "hone/ops/attention/kv_quantization.h"
#include "hone/ops/attention/paged_attention.h"

namespace hone::ops {

PagedAttentionMetadata paged_plan(const std::vector<PagedSequence>& sequences, int64_t block_size, at::Device device) {
  PagedAttentionMetadata plan;
  std::vector<int32_t> slots, tables, begins, lengths;
  for (const auto& sequence : sequences) {
    if (sequence.count == 1 && plan.num_decodes == plan.segments.count()) ++plan.num_decodes;
    int64_t length = sequence.past + sequence.count, blocks = (length + block_size - 1) / block_size;
    plan.segments.append(sequence.count);
    plan.lengths.push_back(length);
    lengths.push_back(static_cast<int32_t>(length));
    begins.push_back(static_cast<int32_t>(tables.size()));
    tables.insert(tables.end(), sequence.blocks.begin(), sequence.blocks.begin() + blocks);
    for (int64_t position = sequence.past; position < length; ++position)
      slots.push_back(
          static_cast<int32_t>(sequence.blocks[static_cast<size_t>(position / block_size)] * block_size + position % block_size));
  }
  auto tensor = [](const std::vector<int32_t>& values) { return at::tensor(values, at::TensorOptions(at::kInt)); };
  plan.slot_mapping_t = tensor(slots);
  plan.block_tables = tensor(tables);
  plan.table_begins_s = tensor(begins);
  plan.lengths_s = tensor(lengths);
  return moved(std::move(plan), device);
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

PagedAttentionMetadata moved(PagedAttentionMetadata plan, at::Device device) {
  for (auto* tensor : {&plan.slot_mapping_t, &plan.block_tables, &plan.table_begins_s, &plan.lengths_s})
    *tensor = tensor->to(device);
  if (device.is_cuda() && plan.num_decodes > 0) {
    const auto decodes = static_cast<size_t>(plan.num_decodes);
    plan.decode_chunks =
        at::tensor(decode_chunks(std::span(plan.lengths).first(decodes), plan.num_decodes), at::TensorOptions(at::kInt))
            .to(device);
  }
  if (device.is_cuda() && plan.num_decodes < plan.segments.count()) {
    CuSeqlens prompts;
    for (int64_t i = plan.num_decodes; i < plan.segments.count(); ++i) prompts.append(plan.segments.length(i));
    plan.prompts = attention_metadata(prompts, device);
  }
  return plan;
}

}  // namespace hone::ops
