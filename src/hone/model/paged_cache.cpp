#include "hone/model/paged_cache.h"

namespace hone::model {

PagedCache::PagedCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, at::Device device) : block_size_(block_size) {
  auto options = at::TensorOptions(dtype).device(device);
  // On the CPU untouched memory costs nothing and is never read; a GPU's kernels read whole blocks and multiply by zero what lies behind
  // the end, which must therefore be numbers.
  auto block = [&] {
    std::vector<int64_t> shape{blocks, config.attention.kv_heads, block_size, config.attention.head_dim};
    return device.is_cpu() ? at::empty(shape, options) : at::zeros(shape, options);
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) layers_.push_back({block(), block()});
}

void PagedCache::copy_blocks(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.empty()) return;
  auto device = layers_[0].keys.device();
  auto sources = at::tensor(from).to(device), targets = at::tensor(to).to(device);
  for (auto& layer : layers_)
    for (auto* blocks : {&layer.keys, &layer.values}) blocks->index_copy_(0, targets, blocks->index_select(0, sources));
}

int64_t PagedCache::bytes_per_token(const DecoderConfig& config, at::ScalarType dtype) {
  return 2 * config.layers * config.attention.kv_heads * config.attention.head_dim * static_cast<int64_t>(c10::elementSize(dtype));
}

Tensor PagedCache::attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionShape& shape) {
  return ops::paged_attention(q, k, v, layers_[static_cast<size_t>(layer)], plan_, shape);
}

Tensor PagedCache::attend(int64_t layer, const Tensor& qkv, const ops::HeadNorms& norms, const ops::RopeTable& rope, const ops::AttentionShape& shape) {
  return ops::joined_attention(qkv, norms, rope, layers_[static_cast<size_t>(layer)], plan_, shape);
}

}  // namespace hone::model
