// Decode attention in 16-bit dtypes on the tensor cores (flash-decoding). A block computes a chunk of one sequence's positions
// for one KV head; chunks have equal lengths in all sequences (ops/attention/decode_chunks.h), which balances the
// multiprocessors. A warp processes sixteen positions at a time: scores are keys times queries (16 x 8), outputs are values times
// weights. Keys and values are loaded directly into the registers of the MMA fragments: the order of a head's elements in a
// product is free as long as both operands agree. A cache of 8-bit floats is widened to half precision in registers, which holds
// all of their values.
#pragma once
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/kv_types.cuh"
#include "hone/ops/cuda/with_cuda/softmax_parts.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

constexpr int kChunkThreads = 128, kChunkWarps = kChunkThreads / 32, kTile = 16, kTileQueries = 8;

struct ChunkShape {
  int heads, kv_heads, group, block_size, window, sequences;
  float scale;  // times log2(e): exponentials are of 2
};
// The layout of chunks in the metadata tensor.
struct ChunkList {
  const int* numbers;
  int sequences;
  __device__ int length() const { return numbers[0]; }
  __device__ int count() const { return numbers[1]; }
  __device__ int first_of(int sequence) const { return numbers[2 + sequence]; }
  __device__ int sequence_of(int chunk) const { return numbers[3 + sequences + chunk]; }
};

__device__ inline void mma16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The tensor cores' type for a cache of C, and two adjacent elements of a pack of such a cache in that type.
template <class C>
using MmaType = std::conditional_t<sizeof(C) == 1, __half, C>;
template <class C, class Words>
__device__ inline uint32_t pair_of(const Words& words, int i) {
  const auto* all = reinterpret_cast<const uint32_t*>(&words);
  if constexpr (sizeof(C) == 2)
    return all[i];
  else
    return C::widened(static_cast<uint16_t>(all[i / 2] >> 16 * (i % 2)));
}
// Two queries in the tensor cores' type; what half precision cannot hold saturates.
template <class T, class M>
__device__ inline uint32_t query_pair(uint32_t pair) {
  if constexpr (std::is_same_v<T, M>) {
    return pair;
  } else {
    constexpr float kLargest = 65504.0f;
    auto clamped = [](uint32_t bits) { return fminf(fmaxf(__uint_as_float(bits), -kLargest), kLargest); };
    return rounded_pair<M>(clamped(pair << 16), clamped(pair & 0xffff0000u));  // of bfloat16
  }
}

// Transposes an 8 x 8 matrix of which each thread has two adjacent elements of a row.
__device__ inline uint32_t transposed(uint32_t pair) {
  uint32_t found;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(found) : "r"(pair));
  return found;
}
// The maximum over the threads with the same two queries.
__device__ inline float rows_max(float value) {
#pragma unroll
  for (int offset = 4; offset < 32; offset *= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}
__device__ inline float rows_sum(float value) {
#pragma unroll
  for (int offset = 4; offset < 32; offset *= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// Sixteen positions of one head in a warp's registers. Thread (row g, column t) has keys of positions g and g + 8: kKeys<C>
// adjacent elements, from t * kKeys<C> on, of every 4 * kKeys<C>. It has values of positions 2t, 2t + 1, 2t + 8 and 2t + 9:
// kValues<C, D> adjacent elements, from g * kValues<C, D> on, of every 8 * kValues<C, D>.
template <class C>
constexpr int kKeys = 16 / sizeof(C);
template <class C, int D>
constexpr int kValues = D / 8 < 16 / sizeof(C) ? D / 8 : 16 / sizeof(C);

template <class C, int D>
struct TileKeys {
  static constexpr int kSpan = 4 * kKeys<C>, kSpans = D / kSpan;
  uint4 packs[kSpans][2];
  __device__ void load(const C* from) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int c = 0; c < kSpans; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        packs[c][r] = __ldcs(reinterpret_cast<const uint4*>(from + (g + 8 * r) * D + c * kSpan + t * kKeys<C>));
  }
};
template <class C, int D>
struct TileValues {
  static constexpr int kOfThread = kValues<C, D>, kSpan = 8 * kOfThread, kSpans = D / kSpan;
  using Words = std::conditional_t<kOfThread * sizeof(C) == 16, uint4, uint2>;
  Words packs[kSpans][4];
  __device__ void load(const C* from) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < kSpans; ++h)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        packs[h][i] = __ldcs(reinterpret_cast<const Words*>(from + (2 * t + i % 2 + i / 2 * 8) * D + h * kSpan + g * kOfThread));
  }
  // The first element of a thread's pair m.
  __device__ static int element(int g, int m) {
    constexpr int kPairs = kOfThread / 2;
    return m / kPairs * kSpan + g * kOfThread + m % kPairs * 2;
  }
};

template <class C, int D>
struct TileSums {
  using M = MmaType<C>;
  float peak[2] = {-INFINITY, -INFINITY}, total[2] = {};  // of queries 2t and 2t + 1; the total is this thread's part
  float values[D / 16][4] = {};

  // Scores are of positions g (first two) and g + 8.
  __device__ void add(float (&score)[4], const TileValues<C, D>& tile) {
    constexpr int kPairs = TileValues<C, D>::kOfThread / 2;
    float shrink[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float highest = fmaxf(peak[i], rows_max(fmaxf(score[i], score[i + 2])));
      const float base = highest == -INFINITY ? 0.0f : highest;
      shrink[i] = exp2f(peak[i] - base);
      score[i] = exp2f(score[i] - base), score[i + 2] = exp2f(score[i + 2] - base);
      total[i] = total[i] * shrink[i] + score[i] + score[i + 2];
      peak[i] = highest;
    }
    const uint32_t upper = transposed(rounded_pair<M>(score[0], score[1])),
                   lower = transposed(rounded_pair<M>(score[2], score[3]));
#pragma unroll
    for (int h = 0; h < TileValues<C, D>::kSpans; ++h)
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        auto& sums = values[h * kPairs + j];
        sums[0] *= shrink[0], sums[1] *= shrink[1], sums[2] *= shrink[0], sums[3] *= shrink[1];
        auto word = [&](int i) { return pair_of<C>(tile.packs[h][i], j); };
        const uint32_t factor[4] = {__byte_perm(word(0), word(1), 0x5410), __byte_perm(word(0), word(1), 0x7632),
                                    __byte_perm(word(2), word(3), 0x5410), __byte_perm(word(2), word(3), 0x7632)};
        mma16(sums, factor, upper, lower, M{});
      }
  }
};

// Half the bytes per tile of 8-bit floats: more blocks keep as many in flight.
// Heads of 256 take twice the registers.
template <class C, int D>
constexpr int kChunkBlocks = D > 128 ? 2 : sizeof(C) == 1 ? 4 : 3;

template <class T, class C, int D>
__global__ void __launch_bounds__(kChunkThreads, kChunkBlocks<C, D>)
    chunk_kernel(const T* q, const C* keys, const C* values, const int* chunk_list, const int* tables, const int* begins,
                 const int* lengths, T* out, float* partial, ChunkShape shape) {
  const int head = blockIdx.x % shape.kv_heads, first_query = blockIdx.x / shape.kv_heads * kTileQueries, chunk = blockIdx.y;
  const ChunkList chunks{chunk_list, shape.sequences};
  let_next_begin();
  if (chunk >= chunks.count()) return wait_for_previous();  // the next kernel depends on all previous ones
  const int sequence = chunks.sequence_of(chunk), length = lengths[sequence], piece = chunk - chunks.first_of(sequence);
  const int begin = piece * chunks.length(), end = min(length, begin + chunks.length());
  const int start = shape.window > 0 && length > shape.window ? length - shape.window : 0;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4,
            count = min(kTileQueries, shape.group - first_query);
  const int* table = tables + begins[sequence];
  auto place_of = [&](int position) {
    const int64_t row = (static_cast<int64_t>(table[position / shape.block_size]) * shape.kv_heads + head) * shape.block_size +
                        position % shape.block_size;
    return row * D;
  };
  // KV of earlier steps may be read while the previous kernel still runs; the newest position may not.
  int position = max(begin, start / kTile * kTile) + warp * kTile;
  if (position + kTile >= length) wait_for_previous();
  using M = MmaType<C>;
  using Keys = TileKeys<C, D>;
  Keys tile_keys;
  TileValues<C, D> tile_values;
  if (position < end) {
    const int64_t place = place_of(position);
    tile_keys.load(keys + place);
    tile_values.load(values + place);
  }
  wait_for_previous();
  uint32_t query[Keys::kSpans][kKeys<C> / 2] = {};  // of query g
  const int64_t first_head = head * shape.group + first_query;
  if (g < count) {
    const T* own = q + (static_cast<int64_t>(sequence) * shape.heads + first_head + g) * D + t * kKeys<C>;
#pragma unroll
    for (int c = 0; c < Keys::kSpans; ++c)
#pragma unroll
      for (int p = 0; p < kKeys<C> / 8; ++p) {
        const uint4 eight = *reinterpret_cast<const uint4*>(own + c * Keys::kSpan + p * 8);
#pragma unroll
        for (int j = 0; j < 4; ++j) query[c][p * 4 + j] = query_pair<T, M>((&eight.x)[j]);
      }
  }
  TileSums<C, D> sums;
  for (; position < end; position += kChunkWarps * kTile) {
    const bool more = position + kChunkWarps * kTile < end;
    const int64_t next = more ? place_of(position + kChunkWarps * kTile) : 0;
    float score[4] = {};
#pragma unroll
    for (int c = 0; c < Keys::kSpans; ++c) {
      const auto &upper = tile_keys.packs[c][0], &lower = tile_keys.packs[c][1];
#pragma unroll
      for (int j = 0; j < kKeys<C> / 2; j += 2)
        mma16(score, {pair_of<C>(upper, j), pair_of<C>(lower, j), pair_of<C>(upper, j + 1), pair_of<C>(lower, j + 1)},
              query[c][j], query[c][j + 1], M{});
    }
    if (more) tile_keys.load(keys + next);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = position + g + i / 2 * 8;
      score[i] = at >= start && at < length ? score[i] * shape.scale : -INFINITY;
    }
    sums.add(score, tile_values);
    if (more) tile_values.load(values + next);
  }

  __shared__ float all_sums[kChunkWarps][kTileQueries][D + 8], all_peaks[kChunkWarps][kTileQueries],
      all_totals[kChunkWarps][kTileQueries];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float total = rows_sum(sums.total[i]);
    if (g == 0) all_peaks[warp][2 * t + i] = sums.peak[i], all_totals[warp][2 * t + i] = total;
#pragma unroll
    for (int m = 0; m < D / 16; ++m)
      *reinterpret_cast<float2*>(&all_sums[warp][2 * t + i][TileValues<C, D>::element(g, m)]) =
          make_float2(sums.values[m][i], sums.values[m][i + 2]);
  }
  __syncthreads();
  const bool alone = chunks.first_of(sequence + 1) - chunks.first_of(sequence) == 1;
  for (int element = threadIdx.x; element < count * D; element += kChunkThreads) {
    const int query_of = element / D, d = element % D;
    SoftmaxParts parts;
#pragma unroll
    for (int w = 0; w < kChunkWarps; ++w) parts.add(all_peaks[w][query_of], all_totals[w][query_of], all_sums[w][query_of][d]);
    if (alone) {
      out[(static_cast<int64_t>(sequence) * shape.heads + first_head + query_of) * D + d] = from_float<T>(parts.result());
    } else {
      float* own = partial + (static_cast<int64_t>(chunk) * shape.heads + first_head + query_of) * (D + 2);
      own[d] = parts.value;
      if (d == 0) own[D] = parts.peak, own[D + 1] = parts.total;
    }
  }
}

// One block per head of one sequence: merges its chunks. A sequence with one chunk is complete; one without chunks, which pads
// the batch, gets zeros.
template <class T, int D>
__global__ void __launch_bounds__(D / 2)
    merge_chunks_kernel(const float* partial, const int* chunk_list, T* out, int heads, int sequences) {
  const ChunkList chunks{chunk_list, sequences};
  const int sequence = blockIdx.x / heads, head = blockIdx.x % heads, d = threadIdx.x * 2;
  let_next_begin();
  const int first = chunks.first_of(sequence), last = chunks.first_of(sequence + 1);
  wait_for_previous();
  if (last - first == 1) return;
  SoftmaxParts one, other;
  for (int chunk = first; chunk < last; ++chunk) {
    const float* own = partial + (static_cast<int64_t>(chunk) * heads + head) * (D + 2);
    const float2 part = *reinterpret_cast<const float2*>(own + d), state = *reinterpret_cast<const float2*>(own + D);
    one.add(state.x, state.y, part.x), other.add(state.x, state.y, part.y);
  }
  *reinterpret_cast<uint32_t*>(out + static_cast<int64_t>(blockIdx.x) * D + d) = rounded_pair<T>(one.result(), other.result());
}

}  // namespace hone::ops::cuda
