#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/dot_accumulate.h"
#include "hone/ops/cpu/kv_quantization.h"
#include "hone/ops/cpu/paged_attention.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"

namespace hone::ops::cpu {
namespace {

// A long sequence is split into chunks of this many positions, so that several threads share it and sums do not depend on the
// number of threads.
constexpr int64_t kPart = 512;

// One key head of one chunk of a sequence: the `group` queries that share the head over positions [first, last).
struct Work {
  int64_t group, head_dim, block_size;
  int64_t block_stride;  // stride between blocks, in elements; `keys` and `values` point to this head of block 0
  const int32_t* table;
  int64_t first, last;
  float scale;
};

HONE_INLINE float exponentials(float* scores, int64_t count, float peak) {
  F32x16 total{};
  for_each_vector(count, HONE_VECTOR_LOOP(auto e = exp(load(scores + i, extent) - peak);
                                          for (int64_t j = extent.count; j < kVectorWidth; ++j) e[j] = 0;
                                          store(scores + i, e, extent); total += e));
  return sum(total);
}

HONE_INLINE float largest(const float* scores, int64_t count) {
  float peak = -INFINITY;
  int64_t i = 0;
#if defined(__aarch64__)
  float32x4_t peaks = vdupq_n_f32(peak);
  for (; i + 4 <= count; i += 4) peaks = vmaxq_f32(peaks, vld1q_f32(scores + i));
  peak = vmaxvq_f32(peaks);
#endif
  for (; i < count; ++i) peak = peak > scores[i] ? peak : scores[i];
  return peak;
}

#if defined(__aarch64__)
constexpr int64_t kTogether = 16;  // positions whose keys and values are widened at a time
#else
constexpr int64_t kTogether = 4;
#endif

int64_t wide_size(int64_t group, int64_t head_dim) { return (group + kTogether) * head_dim; }

template <class T>
HONE_INLINE void widen_span(const T* from, float* to, int64_t count) {
  for_each_vector(count, HONE_VECTOR_LOOP(store_factor(to + i, load_factor(from + i, extent), extent)));
}

#if defined(__aarch64__)

// Scores of four positions: keys [4, head_dim] times a query. GCC keeps F32x16 in memory on Arm, so its vectors are named here.
HONE_INLINE float32x4_t four_scores(const float* query, const float* keys, int64_t head_dim) {
  DotAccumulator a{}, b{}, c{}, d{};
  for (int64_t i = 0; i < head_dim; i += kVectorWidth) {
    const DotOperand q = load_factor(query + i, FullVector{});
    accumulate(a, q, load_factor(keys + i, FullVector{}));
    accumulate(b, q, load_factor(keys + head_dim + i, FullVector{}));
    accumulate(c, q, load_factor(keys + 2 * head_dim + i, FullVector{}));
    accumulate(d, q, load_factor(keys + 3 * head_dim + i, FullVector{}));
  }
  const auto halves = [](float32x4_t x, float32x4_t y) __attribute__((always_inline)) {
    const float64x2_t left = vreinterpretq_f64_f32(x), right = vreinterpretq_f64_f32(y);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(left, right)), vreinterpretq_f32_f64(vzip2q_f64(left, right)));
  };
  return vpaddq_f32(halves(a.four, b.four), halves(c.four, d.four));
}

// sums [head_dim] += the values [count, head_dim], each times its weight.
HONE_INLINE void add_values(const float* values, const float* by, int64_t count, int64_t head_dim, float* sums) {
  for (int64_t i = 0; i < head_dim; i += kVectorWidth) {
    DotOperand sum = load_factor(sums + i, FullVector{});
    for (int64_t j = 0; j < count; ++j) {
      const DotOperand value = load_factor(values + j * head_dim + i, FullVector{});
      sum = {vfmaq_n_f32(sum.a, value.a, by[j]), vfmaq_n_f32(sum.b, value.b, by[j]), vfmaq_n_f32(sum.c, value.c, by[j]),
             vfmaq_n_f32(sum.d, value.d, by[j])};
    }
    store_factor(sums + i, sum, FullVector{});
  }
}

#endif

// `sums` [group, head_dim] receives unnormalized values, `peaks` and `totals` [group] their normalization. `wide` has room for
// wide_size float32 numbers: each key and value is widened once for all queries.
template <class T>
HONE_INLINE void part_body(const T* q, const T* keys, const T* values, float* wide, float* scores, float* sums, float* peaks,
                           float* totals, const Work& w) {
  const int64_t count = w.last - w.first;
  float *queries = wide, *rows = wide + w.group * w.head_dim;
  const auto place = [&](const T* of, int64_t p) __attribute__((always_inline)) {
    const int64_t position = w.first + p;
    return of + w.table[position / w.block_size] * w.block_stride + position % w.block_size * w.head_dim;
  };
  widen_span(q, queries, w.group * w.head_dim);
  int64_t scored = 0;
#if defined(__aarch64__)
  const bool whole = w.head_dim % kVectorWidth == 0;
  for (; whole && scored + 4 <= count; scored += 4) {
    for (int64_t j = 0; j < 4; ++j) widen_span(place(keys, scored + j), rows + j * w.head_dim, w.head_dim);
    for (int64_t g = 0; g < w.group; ++g)
      vst1q_f32(scores + g * count + scored, vmulq_n_f32(four_scores(queries + g * w.head_dim, rows, w.head_dim), w.scale));
  }
#endif
  for (int64_t p = scored; p < count; ++p) {
    widen_span(place(keys, p), rows, w.head_dim);
    for (int64_t g = 0; g < w.group; ++g) {
      DotAccumulator dot{};
      for_each_vector(w.head_dim, HONE_VECTOR_LOOP(accumulate(dot, load_factor(queries + g * w.head_dim + i, extent),
                                                              load_factor(rows + i, extent))));
      scores[g * count + p] = horizontal_sum(dot) * w.scale;
    }
  }
  for (int64_t g = 0; g < w.group; ++g) {
    peaks[g] = largest(scores + g * count, count);
    totals[g] = exponentials(scores + g * count, count, peaks[g]);
  }
  for (int64_t i = 0; i < w.group * w.head_dim; ++i) sums[i] = 0;
  for (int64_t p = 0; p < count; p += kTogether) {
    const int64_t together = count - p < kTogether ? count - p : kTogether;
    for (int64_t j = 0; j < together; ++j) widen_span(place(values, p + j), rows + j * w.head_dim, w.head_dim);
    for (int64_t g = 0; g < w.group; ++g) {
      const float* by = scores + g * count + p;
      float* to = sums + g * w.head_dim;
#if defined(__aarch64__)
      if (whole) {
        add_values(rows, by, together, w.head_dim, to);
        continue;
      }
#endif
      const auto row = [&](int64_t j, int64_t i, auto extent) __attribute__((always_inline)) {
        return load(rows + j * w.head_dim + i, extent) * by[j];
      };
      if (together == 4)
        for_each_vector(w.head_dim, HONE_VECTOR_LOOP(store(to + i,
                                                           load(to + i, extent) + row(0, i, extent) + row(1, i, extent) +
                                                               row(2, i, extent) + row(3, i, extent),
                                                           extent)));
      else
        for (int64_t j = 0; j < together; ++j)
          for_each_vector(w.head_dim, HONE_VECTOR_LOOP(store(to + i, load(to + i, extent) + row(j, i, extent), extent)));
    }
  }
}

#define HONE_DEFINE(T)                                                                                                         \
  HONE_CPU_KERNEL void part(const T* q, const T* keys, const T* values, float* wide, float* scores, float* sums, float* peaks, \
                            float* totals, const Work& work) {                                                                 \
    part_body(q, keys, values, wide, scores, sums, peaks, totals, work);                                                       \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

struct Task {
  int64_t sequence, head, first, last;
};

// The same for a quantized cache: the chunk's keys and values are dequantized first.
class CodedPart {
 public:
  CodedPart(const KvCacheLayer& cache, int64_t group, int64_t head_dim)
      : cache_(cache),
        head_dim_(head_dim),
        queries_(static_cast<size_t>(group * head_dim)),
        keys_(static_cast<size_t>(kPart * head_dim)),
        values_(keys_.size()) {}

  template <class T>
  void operator()(const T* q, int64_t head, float* wide, float* scores, float* sums, float* peaks, float* totals, Work work) {
    std::copy_n(q, work.group * head_dim_, queries_.begin());
    for (int64_t p = 0; p < work.last - work.first; ++p) {
      int64_t position = work.first + p, block = work.table[position / work.block_size];
      int64_t place = (block * cache_.keys.size(1) + head) * work.block_size + position % work.block_size;
      widen_codes(cache_.keys, cache_.key_scales, place, keys_.data() + p * head_dim_);
      widen_codes(cache_.values, cache_.value_scales, place, values_.data() + p * head_dim_);
    }
    static constexpr int32_t kOneBlock[] = {0};
    work.block_size = kPart, work.block_stride = 0, work.table = kOneBlock, work.last -= work.first, work.first = 0;
    part(queries_.data(), keys_.data(), values_.data(), wide, scores, sums, peaks, totals, work);
  }

 private:
  void widen_codes(const Tensor& codes, const Tensor& scales, int64_t place, float* to) const {
    const float* steps = scales.defined() ? scales.const_data_ptr<float>() + place * 2 : nullptr;
    dequantize_kv_row(codes.const_data_ptr<uint8_t>() + place * codes.size(3), steps, head_dim_, cache_.code, to);
  }

  const KvCacheLayer& cache_;
  int64_t head_dim_;
  std::vector<float> queries_, keys_, values_;
};

// Chunks of the same sequence and head are adjacent.
std::vector<Task> tasks_of(const PagedAttentionMetadata& metadata, const AttentionShape& shape) {
  std::vector<Task> tasks;
  for (int64_t sequence = 0; sequence < metadata.num_decodes; ++sequence) {
    int64_t length = metadata.lengths[static_cast<size_t>(sequence)],
            begin = shape.window > 0 ? std::max<int64_t>(0, length - shape.window) : 0;
    for (int64_t head = 0; head < shape.kv_heads; ++head)
      for (int64_t first = begin; first < length; first += kPart)
        tasks.push_back({sequence, head, first, std::min(first + kPart, length)});
  }
  return tasks;
}

// Adds the chunks [begin, end) of one head, each rescaled to the common maximum.
template <class T>
void merge(const float* sums, const float* peaks, const float* totals, size_t begin, size_t end, int64_t group, int64_t head_dim,
           T* out) {
  std::vector<float> result(static_cast<size_t>(head_dim));
  for (int64_t g = 0; g < group; ++g) {
    float peak = -INFINITY, total = 0;
    for (size_t p = begin; p < end; ++p) peak = std::max(peak, peaks[static_cast<int64_t>(p) * group + g]);
    std::ranges::fill(result, 0.0f);
    for (size_t p = begin; p < end; ++p) {
      int64_t row = static_cast<int64_t>(p) * group + g;
      float weight = std::exp(peaks[row] - peak);
      total += totals[row] * weight;
      for (int64_t i = 0; i < head_dim; ++i) result[static_cast<size_t>(i)] += sums[row * head_dim + i] * weight;
    }
    for (int64_t i = 0; i < head_dim; ++i) out[g * head_dim + i] = static_cast<T>(result[static_cast<size_t>(i)] / total);
  }
}

}  // namespace

void paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata, const AttentionShape& shape,
                  Tensor& out) {
  int64_t group = shape.heads / shape.kv_heads, group_width = group * shape.head_dim, block_size = cache.block_size();
  int64_t head_stride = block_size * shape.head_dim, block_stride = shape.kv_heads * head_stride;
  const auto *tables = metadata.block_tables.const_data_ptr<int32_t>(),
             *begins = metadata.table_begins_s.const_data_ptr<int32_t>();
  auto tasks = tasks_of(metadata, shape);
  const auto chunks = static_cast<int64_t>(tasks.size());
  const CallBuffer results(chunks * (group_width + 2 * group));
  float *sums = results.data(), *peaks = sums + chunks * group_width, *totals = peaks + chunks * group;
  with_type(q.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const bool coded = cache.code != KvCacheDtype::plain;
    auto *queries = q.const_data_ptr<T>(), *keys = coded ? nullptr : cache.keys.const_data_ptr<T>(),
         *values = coded ? nullptr : cache.values.const_data_ptr<T>();
    parallel_pieces(chunks, 1, [&](int64_t begin, int64_t end) {
      thread_local std::vector<float> kept_scores, kept_wide;
      float *scores = grown(kept_scores, group * kPart), *wide = grown(kept_wide, wide_size(group, shape.head_dim));
      std::optional<CodedPart> coded_part;
      if (coded) coded_part.emplace(cache, group, shape.head_dim);
      for (int64_t t = begin; t < end; ++t) {
        const auto& task = tasks[static_cast<size_t>(t)];
        Work work{group,
                  shape.head_dim,
                  block_size,
                  block_stride,
                  tables + begins[task.sequence],
                  task.first,
                  task.last,
                  static_cast<float>(shape.scale)};
        int64_t row = task.sequence * shape.kv_heads + task.head;
        auto *own_sums = sums + t * group_width, *own_peaks = peaks + t * group, *own_totals = totals + t * group;
        if (coded)
          (*coded_part)(queries + row * group_width, task.head, wide, scores, own_sums, own_peaks, own_totals, work);
        else
          part(queries + row * group_width, keys + task.head * head_stride, values + task.head * head_stride, wide, scores,
               own_sums, own_peaks, own_totals, work);
      }
    });
    auto* to = out.mutable_data_ptr<T>();
    for (size_t begin = 0; begin < tasks.size();) {
      size_t end = begin;
      while (end < tasks.size() && tasks[end].sequence == tasks[begin].sequence && tasks[end].head == tasks[begin].head) ++end;
      int64_t row = tasks[begin].sequence * shape.kv_heads + tasks[begin].head;
      merge(sums, peaks, totals, begin, end, group, shape.head_dim, to + row * group_width);
      begin = end;
    }
  });
}

}  // namespace hone::ops::cpu
