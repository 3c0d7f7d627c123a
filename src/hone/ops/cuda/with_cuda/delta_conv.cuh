// The causal convolution before a gated delta net with the SiLU after it, and the gradients of both. A thread has sixteen bytes of
// channels and a tile of rows, whose inputs pass through its registers.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda::delta {

constexpr int kConvThreads = 128, kConvRows = 32;

template <class T, int K>
struct Taps {
  static constexpr int kPack = Pack<T>::kCount;
  float values[K][kPack];
  __device__ explicit Taps(const T* weight) {  // of the first channel; [channels, K]
#pragma unroll
    for (int i = 0; i < kPack * K; ++i) values[i % K][i / K] = to_float(weight[i]);
  }
};

// The last K rows; those of another sequence, and before the first row, are zero.
template <class T, int K>
struct Window {
  static constexpr int kPack = Pack<T>::kCount;
  PackFloats<T> rows[K];  // the newest last

  __device__ void push(const PackFloats<T>& row) {
#pragma unroll
    for (int j = 0; j + 1 < K; ++j) rows[j] = rows[j + 1];
    rows[K - 1] = row;
  }
  __device__ PackFloats<T> convolve(const Taps<T, K>& taps, int64_t position) const {
    PackFloats<T> sum{};
#pragma unroll
    for (int j = 0; j < K; ++j)
      if (position >= K - 1 - j)
#pragma unroll
        for (int c = 0; c < kPack; ++c) sum.values[c] += taps.values[j][c] * rows[j].values[c];
    return sum;
  }
};

template <class T>
struct ConvArguments {
  const T* x;
  int64_t stride;
  const T* weight;           // [channels, K]
  const int64_t* positions;  // of each row in its sequence; null: all rows are one
  int rows, channels;

  __device__ int64_t position(int row) const { return positions ? positions[row] : row; }
};

template <class T, int K>
__device__ inline Window<T, K> rows_before(const ConvArguments<T>& a, int row, int channel) {
  Window<T, K> window{};
#pragma unroll
  for (int back = K - 1; back > 0; --back)
    if (row >= back) window.rows[K - back] = floats_of(load_pack(a.x + (row - back) * a.stride + channel));
  return window;
}

template <class T, int K>
__global__ void __launch_bounds__(kConvThreads) conv_kernel(ConvArguments<T> a, T* y) {
  constexpr int kPack = Pack<T>::kCount;
  const int channel = (blockIdx.x * kConvThreads + threadIdx.x) * kPack, begin = blockIdx.y * kConvRows;
  if (channel >= a.channels) return;
  const Taps<T, K> taps(a.weight + static_cast<int64_t>(channel) * K);
  auto window = rows_before<T, K>(a, begin, channel);
#pragma unroll 4
  for (int row = begin; row < min(begin + kConvRows, a.rows); ++row) {
    window.push(floats_of(load_pack(a.x + row * a.stride + channel)));
    auto sum = window.convolve(taps, a.position(row));
#pragma unroll
    for (int c = 0; c < kPack; ++c) sum.values[c] *= quick_reciprocal(1.0f + __expf(-sum.values[c]));
    store_pack(y + static_cast<int64_t>(row) * a.channels + channel, rounded_pack(sum));
  }
}

// dtaps: null, or a row [K, channels] of sums per tile of rows.
template <class T, int K>
__global__ void __launch_bounds__(kConvThreads) conv_gradient_kernel(ConvArguments<T> a, const T* dy, int64_t dy_stride, T* dx, float* dtaps) {
  constexpr int kPack = Pack<T>::kCount;
  const int channel = (blockIdx.x * kConvThreads + threadIdx.x) * kPack, begin = blockIdx.y * kConvRows;
  if (channel >= a.channels) return;
  const int end = min(begin + kConvRows, a.rows);
  const Taps<T, K> taps(a.weight + static_cast<int64_t>(channel) * K);
  auto window = rows_before<T, K>(a, begin, channel);
  PackFloats<T> pending[K] = {};  // of the last K rows' inputs, the newest last
  float sums[K][kPack] = {};
  for (int row = begin; row < end + K - 1; ++row) {
#pragma unroll
    for (int j = 0; j + 1 < K; ++j) pending[j] = pending[j + 1];
    pending[K - 1] = {};
    if (row < a.rows) {
      window.push(floats_of(load_pack(a.x + row * a.stride + channel)));
      const int64_t position = a.position(row);
      auto ds = window.convolve(taps, position);
      const auto grads = floats_of(load_pack(dy + row * dy_stride + channel));
#pragma unroll
      for (int c = 0; c < kPack; ++c) {
        const float sigmoid = quick_reciprocal(1.0f + __expf(-ds.values[c]));
        ds.values[c] = grads.values[c] * sigmoid * (1.0f + ds.values[c] * (1.0f - sigmoid));
      }
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (position >= K - 1 - j)
#pragma unroll
          for (int c = 0; c < kPack; ++c) {
            pending[j].values[c] += taps.values[j][c] * ds.values[c];
            if (row < end) sums[j][c] += ds.values[c] * window.rows[j].values[c];
          }
    }
    const int complete = row - (K - 1);
    if (complete >= begin && complete < end)
      store_pack(dx + static_cast<int64_t>(complete) * a.channels + channel, rounded_pack(pending[0]));
  }
  if (dtaps)
#pragma unroll
    for (int j = 0; j < K; ++j)
#pragma unroll
      for (int c = 0; c < kPack; ++c) dtaps[(static_cast<int64_t>(blockIdx.y) * K + j) * a.channels + channel + c] = sums[j][c];
}

}  // namespace hone::ops::cuda::delta
