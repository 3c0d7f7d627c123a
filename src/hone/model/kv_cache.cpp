#include "hone/model/kv_cache.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {
namespace {

constexpr int64_t kFirstRows = 256;

// Room for `needed` positions. `capacity` is what a model may reach, often far more than an answer takes.
void make_room(Tensor& layer, int64_t needed, int64_t capacity) {
  int64_t now = layer.size(1);
  if (needed <= now) return;
  auto wider = at::empty({layer.size(0), std::min(capacity, std::max(needed, 2 * now)), layer.size(2), layer.size(3)}, layer.options());
  wider.narrow(1, 0, now).copy_(layer);
  layer = wider;
}

}  // namespace

KvCache::KvCache(const DecoderConfig& config, int64_t sequences, int64_t capacity, at::ScalarType dtype, at::Device device)
    : capacity_(capacity), kv_heads_(config.attention.kv_heads), head_dim_(config.attention.head_dim), lengths_(static_cast<size_t>(sequences), 0) {
  auto options = at::TensorOptions(dtype).device(device);
  int64_t rows = std::min(capacity, kFirstRows);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    keys_.push_back(at::empty({sequences, rows, kv_heads_, head_dim_}, options));
    values_.push_back(at::empty({sequences, rows, kv_heads_, head_dim_}, options));
  }
}

void KvCache::truncate(int64_t sequence, int64_t length) {
  auto& current = lengths_[static_cast<size_t>(sequence)];
  HONE_CHECK(length >= 0 && length <= current, "truncating a sequence of {} to {}", current, length);
  current = length;
}

void KvCache::copy(int64_t from, int64_t to) {
  int64_t count = length(from);
  for (auto* layers : {&keys_, &values_})
    for (auto& layer : *layers) layer[to].narrow(0, 0, count).copy_(layer[from].narrow(0, 0, count));
  lengths_[static_cast<size_t>(to)] = count;
}

ops::CachedKeys KvCache::append(int64_t layer, const Tensor& k, const Tensor& v, const ops::Segments& segments) {
  auto &keys = keys_[static_cast<size_t>(layer)], &values = values_[static_cast<size_t>(layer)];
  int64_t needed = 0;
  for (int64_t i = 0; i < segments.count(); ++i) needed = std::max(needed, length(row_of(i)) + segments.length(i));
  HONE_CHECK(needed <= capacity_, "a sequence of {} tokens does not fit a cache of {}", needed, capacity_);
  make_room(keys, needed, capacity_);
  make_room(values, needed, capacity_);
  ops::CachedKeys view{keys, values, {}, {}};
  for (int64_t i = 0; i < segments.count(); ++i) {
    int64_t row = row_of(i), past = length(row), count = segments.length(i), begin = segments.offsets[static_cast<size_t>(i)];
    view.rows.push_back(row);
    view.lengths.push_back(past + count);
    for (auto [to, from] : {std::pair(&keys, &k), std::pair(&values, &v)})
      to->select(0, row).narrow(0, past, count).copy_(from->narrow(0, begin, count).view({count, kv_heads_, head_dim_}));
  }
  return view;
}

void KvCache::advance(const ops::Segments& segments) {
  for (int64_t i = 0; i < segments.count(); ++i) lengths_[static_cast<size_t>(row_of(i))] += segments.length(i);
}

}  // namespace hone::model
