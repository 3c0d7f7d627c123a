// Sums over the rows of a matrix: blocks of rows first, each to one row of float32 sums, then those. The order of additions is
// fixed.
#include "hone/ops/cuda/column_sums.h"

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kSumWarps = 8, kSumRows = 128, kUnrolled = 4;  // rows of one block; packs of a thread in flight
constexpr int kLastWarps = 32;

// A warp has 32 adjacent packs of every kSumWarps-th row.
template <class T>
__global__ void __launch_bounds__(kSumWarps * 32)
    sum_rows_kernel(const T* x, float* sums, int64_t stride, int packs, int rows) {
  constexpr int kPack = Pack<T>::kCount;
  __shared__ float of_warps[kSumWarps][32 * kPack];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pack = blockIdx.x * 32 + lane;
  const int first = blockIdx.y * kSumRows + warp, last = min((static_cast<int>(blockIdx.y) + 1) * kSumRows, rows);
  float own[kPack] = {};
  for (int row = first; row < last && pack < packs; row += kSumWarps * kUnrolled) {
    Pack<T> loaded[kUnrolled];
#pragma unroll
    for (int u = 0; u < kUnrolled; ++u)
      if (row + u * kSumWarps < last) loaded[u] = stream_pack(x + (row + u * kSumWarps) * stride + pack * kPack);
#pragma unroll
    for (int u = 0; u < kUnrolled; ++u) {
      if (row + u * kSumWarps >= last) break;
      const auto values = floats_of(loaded[u]);
#pragma unroll
      for (int j = 0; j < kPack; ++j) own[j] += values.values[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j) of_warps[warp][j * 32 + lane] = own[j];
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * kPack; i += kSumWarps * 32) {
    const int column = (blockIdx.x * 32 + i % 32) * kPack + i / 32;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kSumWarps; ++w) total += of_warps[w][i];
    if (column < packs * kPack) sums[static_cast<int64_t>(blockIdx.y) * packs * kPack + column] = total;
  }
}

// One block per 32 columns.
template <class T>
__global__ void __launch_bounds__(kLastWarps * 32) sum_sums_kernel(const float* sums, T* to, int width, int rows) {
  __shared__ float of_warps[kLastWarps][33];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = blockIdx.x * 32 + lane;
  float own = 0;
  if (column < width) {
#pragma unroll 8
    for (int row = warp; row < rows; row += kLastWarps) own += sums[static_cast<int64_t>(row) * width + column];
  }
  of_warps[warp][lane] = own;
  __syncthreads();
  const float total = warp_sum(of_warps[lane][warp]);
  if (lane == 0 && blockIdx.x * 32 + warp < width) to[blockIdx.x * 32 + warp] = from_float<T>(total);
}

}  // namespace

at::Tensor total_of_sums(const at::Tensor& sums, at::ScalarType type) {
  const int width = static_cast<int>(sums.size(1));
  auto to = at::empty({width}, sums.options().dtype(type));
  with_device_type(type, [&](auto number) {
    using T = decltype(number);
    sum_sums_kernel<T><<<static_cast<unsigned>((width + 31) / 32), kLastWarps * 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
        sums.const_data_ptr<float>(), mutable_data<T>(to), width, static_cast<int>(sums.size(0)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return to;
}

at::Tensor column_sums(const at::Tensor& x) {
  const int rows = static_cast<int>(x.size(0)), blocks = (rows + kSumRows - 1) / kSumRows;
  auto sums = at::empty({blocks, x.size(1)}, x.options().dtype(at::kFloat));
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(x.size(1)) / Pack<T>::kCount;
    dim3 grid(static_cast<unsigned>((packs + 31) / 32), static_cast<unsigned>(blocks));
    sum_rows_kernel<T><<<grid, kSumWarps * 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(x), sums.mutable_data_ptr<float>(), x.stride(0), packs, rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return total_of_sums(sums, x.scalar_type());
}

}  // namespace hone::ops::cuda
