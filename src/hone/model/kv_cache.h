// Keys and values of sequences in progress: per layer, one contiguous run of positions per sequence.
#pragma once
#include <vector>

#include "hone/model/config.h"
#include "hone/ops/attention.h"

namespace hone::model {

class KvCache {
 public:
  KvCache(const DecoderConfig& config, int64_t sequences, int64_t capacity, at::ScalarType dtype, at::Device device);

  int64_t sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  void truncate(int64_t sequence, int64_t length);  // forgets what lies behind `length`
  void reset(int64_t sequence) { truncate(sequence, 0); }
  // Sequence `to` becomes a copy of `from`: a shared prompt is computed once.
  void copy(int64_t from, int64_t to);

  // Which sequences the segments of the next forward pass continue; empty: segment i continues sequence i.
  void select(std::vector<int64_t> rows) { rows_ = std::move(rows); }
  const std::vector<int64_t>& selected() const { return rows_; }

  // For the model: stores a layer's new keys and values [T, kv_heads * head_dim] behind each segment's past, then shows all of them.
  ops::CachedKeys append(int64_t layer, const Tensor& k, const Tensor& v, const ops::Segments& segments);
  void advance(const ops::Segments& segments);  // after the last layer

 private:
  int64_t row_of(int64_t segment) const { return rows_.empty() ? segment : rows_[static_cast<size_t>(segment)]; }

  int64_t capacity_, kv_heads_, head_dim_;
  std::vector<int64_t> lengths_, rows_;
  TensorList keys_, values_;  // per layer [sequences, rows so far, kv_heads, head_dim]; rows grow up to the capacity
};

}  // namespace hone::model
