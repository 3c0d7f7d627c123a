// The paged KV cache of every layer that has attention, the recurrent states of the others, and the metadata of the current step.
#pragma once
#include <memory>

#include "hone/model/config.h"
#include "hone/model/inference/recurrent_states.h"
#include "hone/ops/attention/fused_qkv_attention.h"

namespace hone::model {

class PagedKvCache {
 public:
  // Keys and values of a layer are on its device. Tensor parallel shards follow each other, each with its part of the heads.
  // Layers of linear attention have states of at most `sequences` sequences instead.
  PagedKvCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype,
               const std::vector<at::Device>& layers, ops::KvCacheDtype code = ops::KvCacheDtype::plain, int64_t sequences = 1);
  PagedKvCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, at::Device device,
               int64_t sequences = 1);

  int64_t block_size() const { return block_size_; }
  RecurrentStates* states() { return states_.get(); }  // null where all layers have attention
  static int64_t bytes_per_token(const DecoderConfig& config, at::ScalarType dtype,
                                 ops::KvCacheDtype code = ops::KvCacheDtype::plain);

  void copy_blocks(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

  // The sequences that the next forward pass continues; set before it. `slots` are those of their states.
  void set_metadata(ops::PagedAttentionMetadata metadata, const SequenceSlots& slots = {});
  // The same for a graph: both are filled before each replay. `slots_s` is undefined where all layers have attention.
  void bind_metadata(ops::PagedAttentionMetadata metadata, const Tensor& slots_s);
  // For the model: stores a layer's new keys and values, then computes attention.
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionShape& shape);
  // The same from a fused projection, before norms and rotary embedding.
  Tensor attend(int64_t layer, const Tensor& qkv, const ops::QkNorm& norms, const ops::RopeTable& rope,
                const ops::AttentionShape& shape);

 private:
  void set_for_all_devices(ops::PagedAttentionMetadata metadata);
  const ops::PagedAttentionMetadata* find_metadata(at::Device device) const;

  int64_t block_size_;
  std::vector<ops::KvCacheLayer> layers_;  // without tensors where a layer has no attention
  std::unique_ptr<RecurrentStates> states_;
  std::vector<ops::PagedAttentionMetadata> metadata_;  // as set, then copies for layers on other devices
};

}  // namespace hone::model
