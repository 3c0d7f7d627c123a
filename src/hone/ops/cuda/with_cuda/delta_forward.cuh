// The gated delta rule by chunks, forward (the terms are those of ops/linear_attention/delta_scan.h): `solve_kernel` computes
// what each chunk does to any state, `scan_kernel` carries the states from chunk to chunk, `output_kernel` reads them.
#pragma once
#include "hone/ops/cuda/with_cuda/delta_tiles.cuh"

namespace hone::ops::cuda::delta {

// Rows are [T, heads, 128] and contiguous, except for v. Keys and queries are normalized; `query_scale` is still to be applied.
template <class T>
struct RuleArguments {
  const T *q, *k, *v;
  int64_t v_stride;
  const float *log_decay, *beta;  // [T, heads]
  const Chunk* chunks;            // [N], those of a segment in order
  const int* segments;            // [segments + 1]: the first chunk of each
  int key_heads, heads;
  float query_scale;
  float* decay;  // [N, heads, 64]: the sums of log decays in each chunk, which solve_kernel writes
  T *u, *w, *inverse;   // [T, heads, 128], and [N, heads, 64, 64] or null
  T *states, *values;   // [N, heads, 128, 128] before each chunk, [T, heads, 128]
  float* slots;         // null, or [slots, heads, 128, 128]: continued and updated
  const int64_t* slot;  // of each segment

  __device__ const T* key_rows(const T* rows, const Chunk& chunk, int head) const {
    return rows + (static_cast<int64_t>(chunk.first) * key_heads + head / (heads / key_heads)) * kDim;
  }
  __device__ int64_t value_place(const Chunk& chunk, int head) const {
    return (static_cast<int64_t>(chunk.first) * heads + head) * kDim;
  }
  __device__ int key_stride() const { return key_heads * kDim; }
  __device__ int value_stride() const { return heads * kDim; }
  __device__ float* sums(int chunk, int head) const {
    return decay + (static_cast<int64_t>(chunk) * heads + head) * kRows;
  }
  __device__ int64_t state_place(int chunk, int head) const { return (static_cast<int64_t>(chunk) * heads + head) * kDim * kDim; }
};

constexpr int kSystem = kRows + 4;  // the stride of square tiles in float32

// Inverts the unit lower triangular matrix I + system: its diagonal blocks of 16 by substitution, a thread a column, then the
// blocks below, one diagonal after the other.
__device__ inline void invert(const float* system, float* inverse, float* scratch) {
  const int thread = threadIdx.x, row = thread / 16, column = thread % 16;
  if (thread < kRows) {
    const int first = row * 16;
    float found[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
      for (int k = 0; k < i; ++k) sum -= system[(first + i) * kSystem + first + k] * found[k];
      found[i] = sum;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) inverse[(first + i) * kSystem + first + column] = found[i];
  }
  __syncthreads();
  for (int distance = 1; distance < 4; ++distance) {
    for (int block = distance; block < 4; ++block) {  // its row; its column is block - distance
      float sum = 0;
#pragma unroll 16
      for (int k = (block - distance) * 16; k < block * 16; ++k)
        sum += system[(block * 16 + row) * kSystem + k] * inverse[k * kSystem + (block - distance) * 16 + column];
      scratch[(block * 16 + row) * 17 + column] = sum;
    }
    __syncthreads();
    for (int block = distance; block < 4; ++block) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < 16; ++k)
        sum -= inverse[(block * 16 + row) * kSystem + block * 16 + k] * scratch[(block * 16 + k) * 17 + column];
      inverse[(block * 16 + row) * kSystem + (block - distance) * 16 + column] = sum;
    }
    __syncthreads();
  }
}

template <class T>
struct SolveShared {
  Tile<T> k, v;
  SquareTile<T> of_values, of_keys;
  float system[kRows * kSystem], inverse[kRows * kSystem];
  float scratch[kRows * 17];
  Patches patches;
  Gates gates;
};

template <class T>
__global__ void __launch_bounds__(kThreads) solve_kernel(RuleArguments<T> a) {
  auto& s = shared_memory<SolveShared<T>>();
  const int head = blockIdx.y;
  const Chunk chunk = a.chunks[blockIdx.x];
  load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kDim>(s.v.at, kWide, a.v + chunk.first * a.v_stride + head * kDim, a.v_stride, chunk.rows);
  sum_gates(s.gates, a.log_decay, a.sums(blockIdx.x, head), a.beta, chunk, head, a.heads);
  wait_for_tiles();
  masked_products<T, true>(s.k.at, s.k.at, s.gates, s.patches, [&](int i, int j, const Eight& eight) {
    for (int n = 0; n < 8; ++n) s.system[i * kSystem + j + n] = eight.values[n] * s.gates.beta[i];
  });
  __syncthreads();
  invert(s.system, s.inverse, s.scratch);
  T* inverse = a.inverse ? a.inverse + (static_cast<int64_t>(blockIdx.x) * a.heads + head) * kRows * kRows : nullptr;
  for (int n = threadIdx.x; n < kRows * kRows; n += kThreads) {
    const int i = n / kRows, j = n % kRows;
    const float found = j <= i ? s.inverse[i * kSystem + j] : 0.0f, weighted = found * s.gates.beta[j];
    s.of_values.at[i * kSquare + j] = from_float<T>(weighted);
    s.of_keys.at[i * kSquare + j] = from_float<T>(weighted * s.gates.from_start(j));
    if (inverse) inverse[n] = from_float<T>(found);
  }
  __syncthreads();
  auto write = [&](const SquareTile<T>& left, const Tile<T>& right, T* to) {
    Sums sums[4];
    clear(sums);
    add_product<kRows, Plain, Plain>(sums, left.at + warp_row() * kSquare, kSquare, right.at + wide_column(), kWide);
    const int i = warp_row() + lane_row();
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const auto eight = eight_of(sums[t], s.patches);
      if (i < chunk.rows)
        store_eight(to + a.value_place(chunk, head) + i * a.value_stride() + wide_column() + 16 * t + lane_column(), eight);
    }
  };
  write(s.of_values, s.v, a.u);
  write(s.of_keys, s.k, a.w);
}

template <class T>
struct ScanShared {
  Tile<T> w, k;
  T u[kRows * kNarrow], values[kRows * kNarrow], state[kDim * kNarrow];
  Patches patches;
  Gates gates;
};

// A block: 32 columns of the states of one head of a segment, chunk after chunk. A warp has 16 rows of the state.
template <class T>
__global__ void __launch_bounds__(kThreads) scan_kernel(RuleArguments<T> a) {
  auto& s = shared_memory<ScanShared<T>>();
  const int segment = blockIdx.x, head = blockIdx.y, slice = blockIdx.z * kSlice, warp = threadIdx.x / 32;
  Sums state[2];
  clear(state);
  float* slot = a.slots ? a.slots + a.state_place(static_cast<int>(a.slot[segment]), head) + warp * 16 * kDim + slice : nullptr;
  if (slot)
    for (int t = 0; t < 2; ++t) wmma::load_matrix_sync(state[t], slot + 16 * t, kDim, wmma::mem_row_major);
  auto place_of = [&](int n) { return a.value_place(a.chunks[n], head); };
  auto load_terms = [&](int n) {  // of the values, which are needed first
    load_tile<kDim>(s.w.at, kWide, a.w + place_of(n), a.value_stride(), a.chunks[n].rows);
    load_tile<kSlice>(s.u, kNarrow, a.u + place_of(n) + slice, a.value_stride(), a.chunks[n].rows);
  };
  const int first = a.segments[segment], end = a.segments[segment + 1];
  if (first < end) load_terms(first);
  for (int n = first; n < end; ++n) {
    const Chunk chunk = a.chunks[n];
    const int64_t place = place_of(n);
    load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const auto eight = eight_of(state[t], s.patches);
      const int row = warp * 16 + lane_row(), column = 16 * t + lane_column();
      store_eight(s.state + row * kNarrow + column, eight);
      store_eight(a.states + a.state_place(n, head) + row * kDim + slice + column, eight);
    }
    load_gates(s.gates, a.sums(n, head), a.beta, chunk, head, a.heads);
    wait_for_tiles();
    Sums known[1];
    clear(known);
    const int column = warp % 2 * 16;
    add_product<kDim, Plain, Plain>(known, s.w.at + warp_row() * kWide, kWide, s.state + column, kNarrow);
    const auto read = eight_of(known[0], s.patches);
    const int i = warp_row() + lane_row(), own = column + lane_column();
    auto value = load_eight(s.u + i * kNarrow + own);
    add(value, read, -1);
    if (i < chunk.rows) store_eight(a.values + place + i * a.value_stride() + slice + own, value);
    scale(value, s.gates.to_end(i));
    store_eight(s.values + i * kNarrow + own, value);
    __syncthreads();
    if (n + 1 < end) load_terms(n + 1);  // while the state is updated
    const float decay = __expf(s.gates.last());
#pragma unroll
    for (int t = 0; t < 2; ++t)
      for (int e = 0; e < state[t].num_elements; ++e) state[t].x[e] *= decay;
    add_product<kRows, Transposed, Plain>(state, s.k.at + warp * 16, kWide, s.values, kNarrow);
    __syncthreads();  // the tiles have been read
  }
  if (slot)
    for (int t = 0; t < 2; ++t) wmma::store_matrix_sync(slot + 16 * t, state[t], kDim, wmma::mem_row_major);
}

template <class T>
struct OutputShared {
  Tile<T> q, k, values;
  T state[kDim * kWide];
  SquareTile<T> weights;
  Patches patches;
  Gates gates;
};

template <class T>
__global__ void __launch_bounds__(kThreads) output_kernel(RuleArguments<T> a, T* y) {
  auto& s = shared_memory<OutputShared<T>>();
  const int head = blockIdx.y;
  const Chunk chunk = a.chunks[blockIdx.x];
  const int64_t place = a.value_place(chunk, head);
  load_tile<kDim>(s.q.at, kWide, a.key_rows(a.q, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kDim>(s.values.at, kWide, a.values + place, a.value_stride(), chunk.rows);
  load_tile<kDim, kDim>(s.state, kWide, a.states + a.state_place(blockIdx.x, head), kDim);
  load_gates(s.gates, a.sums(blockIdx.x, head), a.beta, chunk, head, a.heads);
  wait_for_tiles();
  masked_products<T, false>(s.q.at, s.k.at, s.gates, s.patches, [&](int i, int j, const Eight& eight) {
    store_eight(s.weights.at + i * kSquare + j, eight);
  });
  Sums sums[4];
  clear(sums);
  add_product<kDim, Plain, Plain>(sums, s.q.at + warp_row() * kWide, kWide, s.state + wide_column(), kWide);
  const int i = warp_row() + lane_row();
  Eight found[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    found[t] = eight_of(sums[t], s.patches);
    scale(found[t], s.gates.from_start(i));
  }
  __syncthreads();
  clear(sums);
  add_product<kRows, Plain, Plain>(sums, s.weights.at + warp_row() * kSquare, kSquare, s.values.at + wide_column(), kWide);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    add(found[t], eight_of(sums[t], s.patches));
    scale(found[t], a.query_scale);
    if (i < chunk.rows) store_eight(y + place + i * a.value_stride() + wide_column() + 16 * t + lane_column(), found[t]);
  }
}

}  // namespace hone::ops::cuda::delta
