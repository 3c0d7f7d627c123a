#include "hone/model/paged_cache.h"

#include <algorithm>

namespace hone::model {

PagedCache::PagedCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, at::Device device)
    : PagedCache(config, blocks, block_size, dtype, std::vector(static_cast<size_t>(config.layers), device)) {}

PagedCache::PagedCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, const std::vector<at::Device>& layers,
                       ops::CacheCode code)
    : block_size_(block_size) {
  const auto kv_heads = config.attention.kv_heads * config.layers / static_cast<int64_t>(layers.size());  // of slices, each has its part
  for (auto device : layers)
    layers_.push_back(ops::empty_pages(blocks, kv_heads, block_size, config.attention.head_dim, at::TensorOptions(dtype).device(device), code));
}

void PagedCache::copy_blocks(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.empty()) return;
  auto sources = at::tensor(from), targets = at::tensor(to);
  for (auto& layer : layers_) {
    auto device = layer.keys.device();
    for (auto* blocks : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales})
      if (blocks->defined()) blocks->index_copy_(0, targets.to(device), blocks->index_select(0, sources.to(device)));
  }
}

void PagedCache::set_plan(ops::PagedPlan plan) {
  plans_.clear();
  plans_.push_back(std::move(plan));
  for (const auto& layer : layers_)
    if (!find_plan(layer.keys.device())) plans_.push_back(ops::moved(plans_.front(), layer.keys.device()));
}

const ops::PagedPlan* PagedCache::find_plan(at::Device device) const {
  auto found = std::ranges::find_if(plans_, [&](const ops::PagedPlan& plan) { return plan.slots_t.device() == device; });
  return found == plans_.end() ? nullptr : &*found;
}

int64_t PagedCache::bytes_per_token(const DecoderConfig& config, at::ScalarType dtype, ops::CacheCode code) {
  return config.layers * ops::bytes_of_a_position(config.attention.kv_heads, config.attention.head_dim, dtype, code);
}

Tensor PagedCache::attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionShape& shape) {
  auto& keys = layers_[static_cast<size_t>(layer)];
  return ops::paged_attention(q, k, v, keys, *find_plan(keys.keys.device()), shape);
}

Tensor PagedCache::attend(int64_t layer, const Tensor& qkv, const ops::HeadNorms& norms, const ops::RopeTable& rope, const ops::AttentionShape& shape) {
  auto& keys = layers_[static_cast<size_t>(layer)];
  return ops::joined_attention(qkv, norms, rope, keys, *find_plan(keys.keys.device()), shape);
}

}  // namespace hone::model
