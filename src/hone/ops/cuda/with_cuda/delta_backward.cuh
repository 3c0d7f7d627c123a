// The gradients of the gated delta rule by chunks, but those of the triangular system (delta_solve_backward.cuh).
// `value_gradient_kernel`: of the values, by the outputs of their own chunk; `scan_back_kernel`: of the states, from the last
// chunk to the first, and of the values by later chunks; `read_gradient_kernel`: of queries, keys and decays by what outputs and
// states read. With L the sum of a product a_i * b_j * exp(c_i - c_j), the gradient of c_i is that of a_i times a_i, and of c_j
// minus that of b_j times b_j: no product is computed again for the decays.
#pragma once
#include "hone/ops/cuda/with_cuda/delta_forward.cuh"

namespace hone::ops::cuda::delta {

template <class T>
struct RuleGradients {
  const T* dy;           // [T, heads, 128], as all others of this shape
  T *dvalues, *dstates;  // of the states after each chunk, [N, heads, 128, 128]
  T *dq, *dk, *dv, *dw;
  float* ddecay;              // [N, heads, 64]: of the sums of log decays
  float *dlog_decay, *dbeta;  // [T, heads]
};

template <class T>
struct ValueGradientShared {
  Tile<T> q, k, dy;
  SquareTile<T> weights;
  Patches patches;
  Gates gates;
};

template <class T>
__global__ void __launch_bounds__(kThreads) value_gradient_kernel(RuleArguments<T> a, RuleGradients<T> g) {
  auto& s = shared_memory<ValueGradientShared<T>>();
  const int head = blockIdx.y;
  const Chunk chunk = a.chunks[blockIdx.x];
  const int64_t place = a.value_place(chunk, head);
  load_tile<kDim>(s.q.at, kWide, a.key_rows(a.q, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kDim>(s.dy.at, kWide, g.dy + place, a.value_stride(), chunk.rows);
  load_gates(s.gates, a.sums(blockIdx.x, head), a.beta, chunk, head, a.heads);
  wait_for_tiles();
  masked_products<T, false>(s.q.at, s.k.at, s.gates, s.patches,
                            [&](int i, int j, const Eight& eight) { store_eight(s.weights.at + i * kSquare + j, eight); });
  __syncthreads();
  Sums sums[4];
  clear(sums);
  add_product<kRows, Transposed, Plain>(sums, s.weights.at + warp_row(), kSquare, s.dy.at + wide_column(), kWide);
  const int i = warp_row() + lane_row();
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    auto eight = eight_of(sums[t], s.patches);
    scale(eight, a.query_scale);
    if (i < chunk.rows) store_eight(g.dvalues + place + i * a.value_stride() + wide_column() + 16 * t + lane_column(), eight);
  }
}

template <class T>
struct ScanBackShared {
  Tile<T> w, k, q;
  T dy[kRows * kNarrow], dvalues[kRows * kNarrow], dstate[kDim * kNarrow];
  Patches patches;
  Gates gates;
};

template <class T>
__global__ void __launch_bounds__(kThreads) scan_back_kernel(RuleArguments<T> a, RuleGradients<T> g) {
  auto& s = shared_memory<ScanBackShared<T>>();
  const int segment = blockIdx.x, head = blockIdx.y, slice = blockIdx.z * kSlice, warp = threadIdx.x / 32;
  Sums dstate[2];
  clear(dstate);
  auto load_keys = [&](int n) {  // which are needed first
    load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, a.chunks[n], head), a.key_stride(), a.chunks[n].rows);
  };
  const int first = a.segments[segment], end = a.segments[segment + 1];
  if (first < end) load_keys(end - 1);
  for (int n = end - 1; n >= first; --n) {
    const Chunk chunk = a.chunks[n];
    const int64_t place = a.value_place(chunk, head);
    load_tile<kSlice>(s.dvalues, kNarrow, g.dvalues + place + slice, a.value_stride(), chunk.rows);
    load_tile<kSlice>(s.dy, kNarrow, g.dy + place + slice, a.value_stride(), chunk.rows);
    load_tile<kDim>(s.q.at, kWide, a.key_rows(a.q, chunk, head), a.key_stride(), chunk.rows);
    load_tile<kDim>(s.w.at, kWide, a.w + place, a.value_stride(), chunk.rows);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const auto eight = eight_of(dstate[t], s.patches);
      const int row = warp * 16 + lane_row(), column = 16 * t + lane_column();
      store_eight(s.dstate + row * kNarrow + column, eight);
      store_eight(g.dstates + a.state_place(n, head) + row * kDim + slice + column, eight);
    }
    load_gates(s.gates, a.sums(n, head), a.beta, chunk, head, a.heads);
    wait_for_tiles();
    Sums written[1];
    clear(written);
    const int column = warp % 2 * 16;
    add_product<kDim, Plain, Plain>(written, s.k.at + warp_row() * kWide, kWide, s.dstate + column, kNarrow);
    const auto later = eight_of(written[0], s.patches);
    const int i = warp_row() + lane_row(), own = column + lane_column();
    auto dvalue = load_eight(s.dvalues + i * kNarrow + own), dy = load_eight(s.dy + i * kNarrow + own);
    add(dvalue, later, s.gates.to_end(i));
    if (i < chunk.rows) store_eight(g.dvalues + place + i * a.value_stride() + slice + own, dvalue);
    scale(dvalue, -1);
    store_eight(s.dvalues + i * kNarrow + own, dvalue);  // no other lane has read these
    scale(dy, a.query_scale * s.gates.from_start(i));
    store_eight(s.dy + i * kNarrow + own, dy);
    __syncthreads();
    if (n > first) load_keys(n - 1);  // while the gradient of the state is updated
    const float decay = __expf(s.gates.last());
#pragma unroll
    for (int t = 0; t < 2; ++t)
      for (int e = 0; e < dstate[t].num_elements; ++e) dstate[t].x[e] *= decay;
    add_product<kRows, Transposed, Plain>(dstate, s.q.at + warp * 16, kWide, s.dy, kNarrow);
    add_product<kRows, Transposed, Plain>(dstate, s.w.at + warp * 16, kWide, s.dvalues, kNarrow);
    __syncthreads();  // the tiles have been read
  }
}

template <class T>
struct ReadGradientShared {
  Tile<T> k, dy, values;  // `dy`: at last the queries; `values`: their gradients first. Two blocks fit a multiprocessor
  T state[kDim * kWide];  // and then its gradient
  SquareTile<T> weights;
  Patches patches;
  Gates gates;
  float of_queries[2][kRows], of_keys[2][kRows], to_states[2][kRows], kept[kWarps];
};

// The parts of a row's sum that its two warps have.
template <int kParts>
__device__ inline void store_part(float (&parts)[2][kParts], float own) {
  own = pair_sum(own);
  if (threadIdx.x % 2 == 0) parts[threadIdx.x / 32 % 2][warp_row() + lane_row()] = own;
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2) read_gradient_kernel(RuleArguments<T> a, RuleGradients<T> g) {
  auto& s = shared_memory<ReadGradientShared<T>>();
  const int head = blockIdx.y, i = warp_row() + lane_row();
  const Chunk chunk = a.chunks[blockIdx.x];
  const int64_t place = a.value_place(chunk, head), state_place = a.state_place(blockIdx.x, head);
  auto column = [&](int t) { return wide_column() + 16 * t + lane_column(); };
  auto write = [&](T* to, int t, const Eight& eight) {
    if (i < chunk.rows) store_eight(to + place + i * a.value_stride() + column(t), eight);
  };
  load_tile<kDim>(s.dy.at, kWide, g.dy + place, a.value_stride(), chunk.rows);
  load_tile<kDim, kDim>(s.state, kWide, a.states + state_place, kDim);
  load_tile<kDim>(s.values.at, kWide, g.dvalues + place, a.value_stride(), chunk.rows);
  load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
  load_gates(s.gates, a.sums(blockIdx.x, head), a.beta, chunk, head, a.heads);
  wait_for_tiles();
  Sums sums[4];
  Eight found[4];
  clear(sums);
  add_product<kDim, Plain, Transposed>(sums, s.values.at + warp_row() * kWide, kWide, s.state + wide_column() * kWide, kWide);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    auto dw = eight_of(sums[t], s.patches);
    scale(dw, -1);
    write(g.dw, t, dw);
  }
  clear(sums);
  add_product<kDim, Plain, Transposed>(sums, s.dy.at + warp_row() * kWide, kWide, s.state + wide_column() * kWide, kWide);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    found[t] = eight_of(sums[t], s.patches);
    scale(found[t], a.query_scale * s.gates.from_start(i));
  }
  __syncthreads();  // both tiles have been read
  load_tile<kDim>(s.values.at, kWide, a.values + place, a.value_stride(), chunk.rows);
  load_tile<kDim, kDim>(s.state, kWide, g.dstates + state_place, kDim);
  float kept = 0;  // of the states, by the decay over the whole chunk
  for (int n = threadIdx.x * 8; n < kDim * kDim; n += kThreads * 8)
    kept += dot(load_eight(a.states + state_place + n), load_eight(g.dstates + state_place + n));
  kept = warp_sum(kept);
  if (threadIdx.x % 32 == 0) s.kept[threadIdx.x / 32] = kept;
  wait_for_tiles();
  masked_products<T, false>(s.dy.at, s.values.at, s.gates, s.patches, [&](int row, int j, Eight eight) {
    scale(eight, a.query_scale);
    store_eight(s.weights.at + row * kSquare + j, eight);
  });
  __syncthreads();
  const auto& queries = s.dy;
  load_tile<kDim>(s.dy.at, kWide, a.key_rows(a.q, chunk, head), a.key_stride(), chunk.rows);
  wait_for_tiles();
  clear(sums);
  add_product<kRows, Plain, Plain>(sums, s.weights.at + warp_row() * kSquare, kSquare, s.k.at + wide_column(), kWide);
  float by_queries = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    add(found[t], eight_of(sums[t], s.patches));
    by_queries += dot(found[t], load_eight(queries.at + i * kWide + column(t)));
    write(g.dq, t, found[t]);
  }
  store_part(s.of_queries, by_queries);
  clear(sums);
  add_product<kDim, Plain, Transposed>(sums, s.values.at + warp_row() * kWide, kWide, s.state + wide_column() * kWide, kWide);
  float to_states = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    found[t] = eight_of(sums[t], s.patches);
    scale(found[t], s.gates.to_end(i));
    to_states += dot(found[t], load_eight(s.k.at + i * kWide + column(t)));
  }
  store_part(s.to_states, to_states);
  clear(sums);
  add_product<kRows, Transposed, Plain>(sums, s.weights.at + warp_row(), kSquare, queries.at + wide_column(), kWide);
  float by_keys = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    add(found[t], eight_of(sums[t], s.patches));
    by_keys += dot(found[t], load_eight(s.k.at + i * kWide + column(t)));
    write(g.dk, t, found[t]);
  }
  store_part(s.of_keys, by_keys);
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= kRows) return;
  float sum = s.of_queries[0][row] + s.of_queries[1][row] - s.of_keys[0][row] - s.of_keys[1][row];
  if (row == kRows - 1) {
    float all = 0;
    for (int w = 0; w < kWarps; ++w) all += s.kept[w];
    sum += all * __expf(s.gates.last());
    for (int j = 0; j < kRows; ++j) sum += s.to_states[0][j] + s.to_states[1][j];
  }
  g.ddecay[(static_cast<int64_t>(blockIdx.x) * a.heads + head) * kRows + row] = sum;
}

}  // namespace hone::ops::cuda::delta
