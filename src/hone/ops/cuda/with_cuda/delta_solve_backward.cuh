// The gradients of keys, values, betas and decays by the triangular system of a chunk of the gated delta rule.
#pragma once
#include "hone/ops/cuda/with_cuda/delta_backward.cuh"

namespace hone::ops::cuda::delta {

template <class T>
struct SolveGradientShared {
  Tile<T> k, v, dw, du;
  SquareTile<T> inverse, one, other;
  Patches patches;
  Gates gates;
  float by_values[2][kRows], by_keys[2][kRows], by_rows[2][kRows], by_columns[2][kRows], ddecay[kRows];
};

template <class T>
__global__ void __launch_bounds__(kThreads) solve_gradient_kernel(RuleArguments<T> a, RuleGradients<T> g) {
  auto& s = shared_memory<SolveGradientShared<T>>();
  const int head = blockIdx.y, i = warp_row() + lane_row();
  const Chunk chunk = a.chunks[blockIdx.x];
  const int64_t place = a.value_place(chunk, head), number = static_cast<int64_t>(blockIdx.x) * a.heads + head;
  auto column = [&](int t) { return wide_column() + 16 * t + lane_column(); };
  load_tile<kDim>(s.du.at, kWide, g.dvalues + place, a.value_stride(), chunk.rows);
  load_tile<kDim>(s.v.at, kWide, a.v + chunk.first * a.v_stride + head * kDim, a.v_stride, chunk.rows);
  load_tile<kDim>(s.dw.at, kWide, g.dw + place, a.value_stride(), chunk.rows);
  load_tile<kDim>(s.k.at, kWide, a.key_rows(a.k, chunk, head), a.key_stride(), chunk.rows);
  load_tile<kRows>(s.inverse.at, kSquare, a.inverse + number * kRows * kRows, kRows);
  load_gates(s.gates, a.sums(blockIdx.x, head), a.beta, chunk, head, a.heads);
  wait_for_tiles();
  {  // of the inverse, and then, through it, of the system
    Sums by_values[2], by_keys[2];
    clear(by_values);
    clear(by_keys);
    const int first = square_column();
    add_product<kDim, Plain, Transposed>(by_values, s.du.at + warp_row() * kWide, kWide, s.v.at + first * kWide, kWide);
    add_product<kDim, Plain, Transposed>(by_keys, s.dw.at + warp_row() * kWide, kWide, s.k.at + first * kWide, kWide);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      auto eight = eight_of(by_values[t], s.patches);
      const auto keys = eight_of(by_keys[t], s.patches);
      const int j = first + 16 * t + lane_column();
#pragma unroll
      for (int n = 0; n < 8; ++n)
        eight.values[n] = s.gates.beta[j + n] * (eight.values[n] + s.gates.from_start(j + n) * keys.values[n]);
      store_eight(s.one.at + i * kSquare + j, eight);
    }
    __syncthreads();
    clear(by_values);
    add_product<kRows, Transposed, Plain>(by_values, s.inverse.at + warp_row(), kSquare, s.one.at + first, kSquare);
#pragma unroll
    for (int t = 0; t < 2; ++t)
      store_eight(s.other.at + i * kSquare + first + 16 * t + lane_column(), eight_of(by_values[t], s.patches));
    __syncthreads();
    clear(by_values);
    add_product<kRows, Plain, Transposed>(by_values, s.other.at + warp_row() * kSquare, kSquare, s.inverse.at + first * kSquare,
                                          kSquare);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      auto eight = eight_of(by_values[t], s.patches);
      const int j = first + 16 * t + lane_column();
#pragma unroll
      for (int n = 0; n < 8; ++n) eight.values[n] = j + n < i ? -eight.values[n] * s.gates.between(i, j + n) : 0.0f;
      store_eight(s.one.at + i * kSquare + j, eight);
      scale(eight, s.gates.beta[i]);
      store_eight(s.other.at + i * kSquare + j, eight);
    }
    __syncthreads();
  }
  Sums sums[4];
  Eight dk[4];
  clear(sums);
  add_product<kRows, Transposed, Plain>(sums, s.inverse.at + warp_row(), kSquare, s.du.at + wide_column(), kWide);
  float part = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    auto eight = eight_of(sums[t], s.patches);
    part += dot(eight, load_eight(s.v.at + i * kWide + column(t)));
    scale(eight, s.gates.beta[i]);
    if (i < chunk.rows) store_eight(g.dv + place + i * a.value_stride() + column(t), eight);
    dk[t] = i < chunk.rows ? load_eight(g.dk + place + i * a.value_stride() + column(t)) : Eight{};
  }
  store_part(s.by_values, part);
  // Adds `by` times a product to the keys' gradients. -> the product times the keys
  auto add_to_keys = [&](float by) {
    float own = 0;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const auto eight = eight_of(sums[t], s.patches);
      own += dot(eight, load_eight(s.k.at + i * kWide + column(t)));
      add(dk[t], eight, by);
    }
    return own;
  };
  const float beta = s.gates.beta[i], from_start = s.gates.from_start(i);
  clear(sums);
  add_product<kRows, Transposed, Plain>(sums, s.inverse.at + warp_row(), kSquare, s.dw.at + wide_column(), kWide);
  store_part(s.by_keys, from_start * add_to_keys(beta * from_start));
  clear(sums);
  add_product<kRows, Plain, Plain>(sums, s.one.at + warp_row() * kSquare, kSquare, s.k.at + wide_column(), kWide);
  store_part(s.by_rows, add_to_keys(beta));
  clear(sums);
  add_product<kRows, Transposed, Plain>(sums, s.other.at + warp_row(), kSquare, s.k.at + wide_column(), kWide);
  store_part(s.by_columns, add_to_keys(1));
#pragma unroll
  for (int t = 0; t < 4; ++t)
    if (i < chunk.rows) store_eight(g.dk + place + i * a.value_stride() + column(t), dk[t]);
  __syncthreads();
  const int row = threadIdx.x;
  const int64_t at = static_cast<int64_t>(chunk.first + row) * a.heads + head;
  if (row < kRows) {
    auto total = [&](const float(&parts)[2][kRows]) { return parts[0][row] + parts[1][row]; };
    const float by_keys = total(s.by_keys) + total(s.by_rows);
    if (row < chunk.rows) g.dbeta[at] = total(s.by_values) + by_keys;
    s.ddecay[row] = g.ddecay[number * kRows + row] + s.gates.beta[row] * by_keys - total(s.by_columns);
  }
  __syncthreads();
  if (row >= chunk.rows) return;
  float sum = 0;
  for (int j = row; j < kRows; ++j) sum += s.ddecay[j];
  g.dlog_decay[at] = sum;
}

}  // namespace hone::ops::cuda::delta
