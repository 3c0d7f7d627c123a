// Tiles of a chunk of the gated delta rule in shared memory, and their products on the tensor cores. A block of threads computes
// one chunk, of up to 64 positions, in one value head; keys and values have 128 elements.
#pragma once
#include <cuda_pipeline.h>
#include <mma.h>

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda::delta {

namespace wmma = nvcuda::wmma;
using Plain = wmma::row_major;
using Transposed = wmma::col_major;  // the operand's transpose is what lies in memory
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

constexpr int kRows = 64, kDim = 128, kThreads = 256, kWarps = kThreads / 32;
constexpr int kSlice = 32;  // value columns of a block that carries a state from chunk to chunk
// Strides of tiles in shared memory: rows begin in different banks.
constexpr int kWide = kDim + 8, kSquare = kRows + 8, kNarrow = kSlice + 8, kPatch = 20;

// A chunk of the packed rows.
struct Chunk {
  int first, rows;
};

template <class T>
struct Tile {
  T at[kRows * kWide];
};
template <class T>
struct SquareTile {
  T at[kRows * kSquare];
};
struct Patches {
  float at[kWarps][16 * kPatch];
};

// sums[i] += a * b's columns from 16 * i on, of which `a` is 16 x K.
template <int K, class A, class B, class T, int N>
__device__ inline void add_product(Sums (&sums)[N], const T* a, int a_stride, const T* b, int b_stride) {
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, A> left;
    wmma::load_matrix_sync(left, a + (std::is_same_v<A, Plain> ? k : k * a_stride), a_stride);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, B> right;
      wmma::load_matrix_sync(right, b + (std::is_same_v<B, Plain> ? k * b_stride + 16 * i : 16 * i * b_stride + k), b_stride);
      wmma::mma_sync(sums[i], left, right, sums[i]);
    }
  }
}
template <int N>
__device__ inline void clear(Sums (&sums)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) wmma::fill_fragment(sums[i], 0.0f);
}

// Eight adjacent elements of a 16 x 16 tile, which a lane has of row lane_row() from column lane_column() on.
struct Eight {
  float values[8];
};
__device__ inline int lane_row() { return threadIdx.x % 32 / 2; }
__device__ inline int lane_column() { return threadIdx.x % 2 * 8; }
__device__ inline Eight eight_of(const Sums& sums, Patches& patches) {
  float* patch = patches.at[threadIdx.x / 32];
  __syncwarp();  // the previous tile has been read
  wmma::store_matrix_sync(patch, sums, kPatch, wmma::mem_row_major);
  __syncwarp();
  const auto* from = reinterpret_cast<const float4*>(patch + lane_row() * kPatch + lane_column());
  const float4 low = from[0], high = from[1];
  return {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
}
template <class T>
__device__ inline Eight load_eight(const T* from) {
  Eight found;
  if constexpr (sizeof(T) == 2) {
    const auto values = floats_of(load_pack(from));
#pragma unroll
    for (int j = 0; j < 8; ++j) found.values[j] = values.values[j];
  } else {
    for (int j = 0; j < 8; ++j) found.values[j] = to_float(from[j]);
  }
  return found;
}
template <class T>
__device__ inline void store_eight(T* to, const Eight& eight) {
  if constexpr (sizeof(T) == 2) {
    PackFloats<T> values;
#pragma unroll
    for (int j = 0; j < 8; ++j) values.values[j] = eight.values[j];
    store_pack(to, rounded_pack(values));
  } else {
    for (int j = 0; j < 8; ++j) to[j] = from_float<T>(eight.values[j]);
  }
}
__device__ inline void scale(Eight& eight, float by) {
#pragma unroll
  for (int j = 0; j < 8; ++j) eight.values[j] *= by;
}
__device__ inline void add(Eight& eight, const Eight& other, float by = 1) {
#pragma unroll
  for (int j = 0; j < 8; ++j) eight.values[j] += by * other.values[j];
}
__device__ inline float dot(const Eight& a, const Eight& b) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += a.values[j] * b.values[j];
  return sum;
}
// Of the two lanes with the same row.
__device__ inline float pair_sum(float value) { return value + __shfl_xor_sync(0xffffffffu, value, 1); }

// The first `rows` of 64 (or of kTileRows) rows of kColumns; zeros follow. Complete after wait_for_tiles().
template <int kColumns, int kTileRows = kRows, class T>
__device__ inline void load_tile(T* to, int to_stride, const T* from, int64_t from_stride, int rows = kTileRows) {
  constexpr int kPack = Pack<T>::kCount, kPacks = kColumns / kPack;
#pragma unroll 4
  for (int i = threadIdx.x; i < kTileRows * kPacks; i += kThreads) {
    const int row = i / kPacks, column = i % kPacks * kPack;
    T* place = to + row * to_stride + column;
    if (row < rows)
      __pipeline_memcpy_async(place, from + row * from_stride + column, 16);
    else
      *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
  }
}
__device__ inline void wait_for_tiles() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Of a chunk's positions in one head: the sum of log decays up to each, and beta. Positions beyond the chunk change nothing.
struct Gates {
  float decay[kRows], beta[kRows];

  __device__ float last() const { return decay[kRows - 1]; }
  __device__ float from_start(int i) const { return __expf(decay[i]); }
  __device__ float to_end(int i) const { return __expf(last() - decay[i]); }
  __device__ float between(int i, int j) const { return __expf(decay[i] - decay[j]); }  // for i >= j
};
// `sums` are those of the chunk in the head. Complete after wait_for_tiles().
__device__ inline void load_gates(Gates& gates, const float* sums, const float* beta, const Chunk& chunk, int head, int heads) {
  const int i = threadIdx.x;
  if (i >= kRows) return;
  gates.decay[i] = sums[i];
  gates.beta[i] = i < chunk.rows ? beta[static_cast<int64_t>(chunk.first + i) * heads + head] : 0.0f;
}
// The same from the log decays; writes the sums.
__device__ inline void sum_gates(Gates& gates, const float* log_decay, float* sums, const float* beta, const Chunk& chunk,
                                 int head, int heads) {
  const int i = threadIdx.x;
  const int64_t at = static_cast<int64_t>(chunk.first + i) * heads + head;
  float sum = 0;
  if (i < kRows) {
    sum = i < chunk.rows ? log_decay[at] : 0.0f;
    gates.beta[i] = i < chunk.rows ? beta[at] : 0.0f;
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, sum, offset);
      if (i % 32 >= offset) sum += before;
    }
    gates.decay[i] = sum;
  }
  __syncthreads();
  if (i >= 32 && i < kRows) gates.decay[i] = sum = sum + gates.decay[31];
  if (i < kRows) sums[i] = sum;
}

// The 16 rows and the columns of a warp: of 64 x 128 elements four tiles, of 64 x 64 two.
__device__ inline int warp_row() { return threadIdx.x / 64 * 16; }
__device__ inline int wide_column() { return threadIdx.x / 32 % 2 * 64; }
__device__ inline int square_column() { return threadIdx.x / 32 % 2 * 32; }

// Queries and keys of a chunk: their products, with the decay between them and `factor`, up to each position (`kStrict`: before
// it), with each row times its beta if wanted.
template <class T, bool kStrict, class Store>
__device__ inline void masked_products(const T* left, const T* right, const Gates& gates, Patches& patches, Store store) {
  Sums sums[2];
  clear(sums);
  add_product<kDim, Plain, Transposed>(sums, left + warp_row() * kWide, kWide, right + square_column() * kWide, kWide);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    auto eight = eight_of(sums[t], patches);
    const int i = warp_row() + lane_row(), first = square_column() + 16 * t + lane_column();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = first + j;
      eight.values[j] = (kStrict ? column < i : column <= i) ? eight.values[j] * gates.between(i, column) : 0.0f;
    }
    store(i, first, eight);
  }
}

template <class Shared>
__device__ inline Shared& shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return *reinterpret_cast<Shared*>(memory);
}

}  // namespace hone::ops::cuda::delta
