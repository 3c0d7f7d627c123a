#include <algorithm>
#include <vector>

#include "hone/ops/cpu/attention.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

// One key head of one sequence: the `group` queries that share it against positions [first, length).
struct Work {
  int64_t group, head_dim, stride, first, length;  // stride: elements from one position's key to the next
  float scale;
};

HONE_INLINE void softmax_row(float* scores, int64_t count) {
  Lane largest = splat(-INFINITY);
  for_lanes(count, HONE_LANES(auto s = load(scores + i, extent);
                              for (int64_t j = extent.count; j < kLane; ++j) s[j] = -INFINITY;
                              largest = max(largest, s)));
  float peak = max(largest);
  float total = 0;
  for_lanes(count, HONE_LANES(store(scores + i, exp(load(scores + i, extent) - peak), extent);
                              total += sum(load(scores + i, extent))));
  float inverse = 1.0f / total;
  for_lanes(count, HONE_LANES(store(scores + i, load(scores + i, extent) * inverse, extent)));
}

template <class T>
HONE_INLINE void decode_body(const T* q, const T* keys, const T* values, T* out, float* scores, float* sums, const Work& work) {
  int64_t count = work.length - work.first;
  for (int64_t p = 0; p < count; ++p) {
    const T* key = keys + (work.first + p) * work.stride;
    for (int64_t g = 0; g < work.group; ++g) {
      Lane dot{};
      for_lanes(work.head_dim, HONE_LANES(dot += load(q + g * work.head_dim + i, extent) * load(key + i, extent)));
      scores[g * count + p] = sum(dot) * work.scale;
    }
  }
  for (int64_t g = 0; g < work.group; ++g) softmax_row(scores + g * count, count);
  std::fill_n(sums, work.group * work.head_dim, 0.0f);
  for (int64_t p = 0; p < count; ++p) {
    const T* value = values + (work.first + p) * work.stride;
    for (int64_t g = 0; g < work.group; ++g) {
      float weight = scores[g * count + p];
      float* to = sums + g * work.head_dim;
      for_lanes(work.head_dim, HONE_LANES(store(to + i, load(to + i, extent) + load(value + i, extent) * weight, extent)));
    }
  }
  for_lanes(work.group * work.head_dim, HONE_LANES(store(out + i, load(sums + i, extent), extent)));
}

#define HONE_DEFINE(T)                                                                                                                  \
  HONE_CPU_KERNEL void decode_head(const T* q, const T* keys, const T* values, T* out, float* scores, float* sums, const Work& work) {  \
    decode_body(q, keys, values, out, scores, sums, work);                                                                              \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

}  // namespace

void decode_attention(const Tensor& q, const CachedKeys& cache, const AttentionShape& shape, Tensor& out) {
  int64_t group = shape.heads / shape.kv_heads, group_width = group * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  int64_t capacity = cache.keys.size(1);
  with_type(q.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *queries = q.const_data_ptr<T>(), *keys = cache.keys.const_data_ptr<T>(), *values = cache.values.const_data_ptr<T>();
    auto* to = out.mutable_data_ptr<T>();
    at::parallel_for(0, q.size(0) * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scores, sums(static_cast<size_t>(group_width));
      for (int64_t task = begin; task < end; ++task) {
        int64_t sequence = task / shape.kv_heads, head = task % shape.kv_heads;
        int64_t length = cache.lengths[static_cast<size_t>(sequence)];
        Work work{group, shape.head_dim, kv_width, shape.window > 0 ? std::max<int64_t>(0, length - shape.window) : 0, length,
                  static_cast<float>(shape.scale)};
        scores.resize(static_cast<size_t>(group * (length - work.first)));
        int64_t base = cache.rows[static_cast<size_t>(sequence)] * capacity * kv_width + head * shape.head_dim;
        decode_head(queries + task * group_width, keys + base, values + base, to + task * group_width, scores.data(), sums.data(), work);
      }
    });
  });
}

}  // namespace hone::ops::cpu
