// Both gradients of silu(gate) * up, and the product again. An update of few ranks may be part of dy: a thread then keeps the factor's numbers for
// eight columns in registers and goes down some rows.
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kGateThreads = 128, kGateRows = 32, kGatesAtOnce = 2;

struct SwigluStrides {
  int64_t dy, gate, up, dgate, dup, product, update;
};

template <class T>
struct GateRow {
  Pack<T> dy, gate, up;
};

// Leaves dgate in `gate` and dup in `up`; returns the product.
template <class T>
__device__ inline Pack<T> gradients(GateRow<T>& row, const float* dy) {
  Pack<T> product;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float x = to_float(row.gate.values[j]), other = to_float(row.up.values[j]);
    const float open = 1.0f / (1.0f + __expf(-x)), silu = to_float(from_float<T>(x * open));
    product.values[j] = from_float<T>(silu * other);
    row.gate.values[j] = from_float<T>(dy[j] * other * open * (1.0f + x * (1.0f - open)));
    row.up.values[j] = from_float<T>(dy[j] * silu);
  }
  return product;
}

template <class T, int R>
__global__ void __launch_bounds__(kGateThreads) swiglu_backward_kernel(const T* dy, const T* gate, const T* up, T* dgate, T* dup, T* product, const T* update,
                                                                       const T* factor, int packs, int rows_in_all, int tile, SwigluStrides strides) {
  constexpr int kPack = Pack<T>::kCount;
  __shared__ float own[kGateRows][R > 0 ? R : 1];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * tile;
  const int rows = min(tile, static_cast<int>(rows_in_all - first));
  if constexpr (R > 0) {
    for (int i = threadIdx.x; i < rows * R; i += kGateThreads) own[i / R][i % R] = to_float(update[(first + i / R) * strides.update + i % R]);
    __syncthreads();
  }
  const int column = blockIdx.y * kGateThreads + threadIdx.x;
  if (column >= packs) return;
  float factors[R > 0 ? R : 1][kPack];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const auto pack = load_pack(factor + (static_cast<int64_t>(r) * packs + column) * kPack);
#pragma unroll
    for (int j = 0; j < kPack; ++j) factors[r][j] = to_float(pack.values[j]);
  }
  for (int begin = 0; begin < rows; begin += kGatesAtOnce) {
    GateRow<T> packed[kGatesAtOnce];  // all asked for before the first is used
#pragma unroll
    for (int k = 0; k < kGatesAtOnce; ++k) {
      const int64_t row = first + begin + k;
      if (begin + k < rows)
        packed[k] = {load_pack(dy + row * strides.dy + column * kPack), load_pack(gate + row * strides.gate + column * kPack), load_pack(up + row * strides.up + column * kPack)};
    }
#pragma unroll
    for (int k = 0; k < kGatesAtOnce; ++k) {
      if (begin + k >= rows) break;
      const int64_t row = first + begin + k;
      float whole[kPack];
#pragma unroll
      for (int j = 0; j < kPack; ++j) whole[j] = to_float(packed[k].dy.values[j]);
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int j = 0; j < kPack; ++j) whole[j] += own[begin + k][r] * factors[r][j];
      if constexpr (R > 0)  // as if the sum had been stored between
#pragma unroll
        for (int j = 0; j < kPack; ++j) whole[j] = to_float(from_float<T>(whole[j]));
      const auto again = gradients(packed[k], whole);
      store_pack(dgate + row * strides.dgate + column * kPack, packed[k].gate);
      store_pack(dup + row * strides.dup + column * kPack, packed[k].up);
      if (product) store_pack(product + row * strides.product + column * kPack, again);
    }
  }
}

}  // namespace

void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dgate, const at::Tensor& dup, const at::Tensor& product,
                     const at::Tensor& update, const at::Tensor& factor) {
  const int64_t rank = update.defined() ? update.size(1) : 0;
  TORCH_CHECK(rank == 0 || (serves_low_rank_add(dy, rank) && factor.is_contiguous() && update.stride(1) == 1), "an update of 8 or 16 ranks");
  SwigluStrides strides{dy.stride(0), gate.stride(0), up.stride(0), dgate.stride(0), dup.stride(0), product.defined() ? product.stride(0) : 0, rank ? update.stride(0) : 0};
  const int rows = static_cast<int>(gate.size(0));
  auto stream = c10::cuda::getCurrentCUDAStream();
  with_device_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(gate.size(1)) / Pack<T>::kCount;
    const int column_blocks = (packs + kGateThreads - 1) / kGateThreads, tile = tile_for(rows, column_blocks, kGateRows, kGatesAtOnce);
    dim3 grid(static_cast<unsigned>((rows + tile - 1) / tile), static_cast<unsigned>(column_blocks));
    auto launch = [&](auto kernel) {
      kernel<<<grid, kGateThreads, 0, stream>>>(data<T>(dy), data<T>(gate), data<T>(up), mutable_data<T>(dgate), mutable_data<T>(dup),
                                                product.defined() ? mutable_data<T>(product) : nullptr, rank ? data<T>(update) : nullptr,
                                                rank ? data<T>(factor) : nullptr, packs, rows, tile, strides);
    };
    if (rank == 0) launch(swiglu_backward_kernel<T, 0>);
    else if (rank == 8) launch(swiglu_backward_kernel<T, 8>);
    else launch(swiglu_backward_kernel<T, 16>);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace hone::ops::cuda
