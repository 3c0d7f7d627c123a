#include "hone/model/inference/paged_kv_cache.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {

PagedKvCache::PagedKvCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype,
                           at::Device device, int64_t sequences)
    : PagedKvCache(config, blocks, block_size, dtype, std::vector(static_cast<size_t>(config.layers), device),
                   ops::KvCacheDtype::plain, sequences) {}

PagedKvCache::PagedKvCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype,
                           const std::vector<at::Device>& layers, ops::KvCacheDtype code, int64_t sequences)
    : block_size_(block_size),
      states_(config.linear_attention ? std::make_unique<RecurrentStates>(config, sequences, dtype, layers) : nullptr) {
  const auto kv_heads =
      config.attention.kv_heads * config.layers / static_cast<int64_t>(layers.size());  // each shard has its part
  for (auto device : layers)
    layers_.push_back(config.is_linear(static_cast<int64_t>(layers_.size()))
                          ? ops::KvCacheLayer()
                          : ops::allocate_kv_cache_layer(blocks, kv_heads, block_size, config.attention.head_dim,
                                                         at::TensorOptions(dtype).device(device), code));
}

void PagedKvCache::copy_blocks(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.empty()) return;
  auto sources = at::tensor(from), targets = at::tensor(to);
  for (auto& layer : layers_) {
    if (!layer.keys.defined()) continue;
    auto device = layer.keys.device();
    for (auto* blocks : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales})
      if (blocks->defined()) blocks->index_copy_(0, targets.to(device), blocks->index_select(0, sources.to(device)));
  }
}

void PagedKvCache::set_metadata(ops::PagedAttentionMetadata metadata, const SequenceSlots& slots) {
  if (states_) {
    HONE_CHECK(static_cast<int64_t>(slots.slots.size()) == metadata.segments.count(), "{} slots of states for {} sequences",
               slots.slots.size(), metadata.segments.count());
    states_->set_slots(slots);
  }
  set_for_all_devices(std::move(metadata));
}

void PagedKvCache::bind_metadata(ops::PagedAttentionMetadata metadata, const Tensor& slots_s) {
  if (states_) states_->bind_slots(slots_s);
  set_for_all_devices(std::move(metadata));
}

void PagedKvCache::set_for_all_devices(ops::PagedAttentionMetadata metadata) {
  metadata_.clear();
  metadata_.push_back(std::move(metadata));
  for (const auto& layer : layers_)
    if (layer.keys.defined() && !find_metadata(layer.keys.device()))
      metadata_.push_back(ops::moved(metadata_.front(), layer.keys.device()));
}

const ops::PagedAttentionMetadata* PagedKvCache::find_metadata(at::Device device) const {
  auto found = std::ranges::find_if(
      metadata_, [&](const ops::PagedAttentionMetadata& metadata) { return metadata.slot_mapping_t.device() == device; });
  return found == metadata_.end() ? nullptr : &*found;
}

int64_t PagedKvCache::bytes_per_token(const DecoderConfig& config, at::ScalarType dtype, ops::KvCacheDtype code) {
  return config.attention_layers() * ops::kv_bytes_per_token(config.attention.kv_heads, config.attention.head_dim, dtype, code);
}

Tensor PagedKvCache::attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionShape& shape) {
  auto& keys = layers_[static_cast<size_t>(layer)];
  return ops::paged_attention(q, k, v, keys, *find_metadata(keys.keys.device()), shape);
}

Tensor PagedKvCache::attend(int64_t layer, const Tensor& qkv, const ops::QkNorm& norms, const ops::RopeTable& rope,
                            const ops::AttentionShape& shape) {
  auto& keys = layers_[static_cast<size_t>(layer)];
  return ops::fused_qkv_attention(qkv, norms, rope, keys, *find_metadata(keys.keys.device()), shape);
}

}  // namespace hone::model
