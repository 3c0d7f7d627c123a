// Keys and values of every layer in blocks that sequences share, and the plan of the step being computed.
#pragma once
#include "hone/model/config.h"
#include "hone/ops/joined_heads.h"

namespace hone::model {

class PagedCache {
 public:
  // Keys and values of a layer lie on its device. Layers in slices follow each other slice by slice, each with its part of the heads.
  PagedCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, const std::vector<at::Device>& layers,
             ops::CacheCode code = ops::CacheCode::plain);
  PagedCache(const DecoderConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, at::Device device);

  int64_t block_size() const { return block_size_; }
  static int64_t bytes_per_token(const DecoderConfig& config, at::ScalarType dtype, ops::CacheCode code = ops::CacheCode::plain);

  void copy_blocks(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

  // Which sequences the next forward pass continues, and where; set before it.
  void set_plan(ops::PagedPlan plan);
  // For the model: stores a layer's new keys and values, then attends.
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionShape& shape);
  // The same from a joined projection, before norms and rotation.
  Tensor attend(int64_t layer, const Tensor& qkv, const ops::HeadNorms& norms, const ops::RopeTable& rope, const ops::AttentionShape& shape);

 private:
  const ops::PagedPlan* find_plan(at::Device device) const;

  int64_t block_size_;
  std::vector<ops::PagedKeys> layers_;
  std::vector<ops::PagedPlan> plans_;  // the one that was set, and the same for layers on other devices
};

}  // namespace hone::model
