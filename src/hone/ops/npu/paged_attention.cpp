#include "hone/ops/npu/paged_attention.h"

#include "hone/ops/npu/boxed.h"

namespace hone::ops::npu {
namespace {

// The block lists as rows of one table, built once for all layers of a step.
struct BlockTable {
  c10::weak_intrusive_ptr<c10::TensorImpl> of{c10::intrusive_ptr<c10::TensorImpl>()};
  Tensor rows;
};

Tensor block_table(const PagedAttentionMetadata& metadata, int64_t block_size) {
  static thread_local BlockTable kept;
  auto alive = kept.of.lock();
  if (alive.get() == metadata.block_tables.unsafeGetTensorImpl()) return kept.rows;
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < metadata.num_decodes; ++i)
    counts.push_back((metadata.lengths[static_cast<size_t>(i)] + block_size - 1) / block_size);
  int64_t longest = *std::max_element(counts.begin(), counts.end()), begin = 0;
  TensorList rows;
  for (int64_t count : counts) {
    rows.push_back(at::constant_pad_nd(metadata.block_tables.narrow(0, begin, count), {0, longest - count}, 0));
    begin += count;
  }
  kept = {c10::weak_intrusive_ptr<c10::TensorImpl>(metadata.block_tables.getIntrusivePtr()), at::stack(rows)};
  return kept.rows;
}

}  // namespace

bool supports_paged(const Tensor& q, const KvCacheLayer& cache, const AttentionShape& shape) {
  bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return half && shape.window == 0 && cache.block_size() % 16 == 0 && cache.block_size() <= 512 &&
         supports(q, "npu_fused_infer_attention_score");
}

Tensor paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                    const AttentionShape& shape) {
  std::vector<int64_t> lengths(metadata.lengths.begin(), metadata.lengths.begin() + metadata.num_decodes);
  auto out =
      call("npu_fused_infer_attention_score", {{q.view({q.size(0), shape.heads, 1, shape.head_dim}), cache.keys, cache.values},
                                               {{"actual_seq_lengths_kv", lengths},
                                                {"block_table", block_table(metadata, cache.block_size())},
                                                {"num_heads", shape.heads},
                                                {"num_key_value_heads", shape.kv_heads},
                                                {"scale", shape.scale},
                                                {"input_layout", "BNSD"},
                                                {"block_size", cache.block_size()}}});
  return out.view({q.size(0), -1});
}

}  // namespace hone::ops::npu
