// y += p times a factor of few ranks. A thread keeps the factor's numbers for eight columns in registers and goes down some rows of y.
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kAddThreads = 128, kMostRows = 64, kRowsAtOnce = 4;

struct AddShape {
  int packs, rows, tile;  // rows of y in all, and those of one block
  int64_t y_stride, p_stride;
};

template <class T, int R, bool kAcross>
__global__ void __launch_bounds__(kAddThreads) low_rank_add_kernel(T* y, const T* p, const T* factor, AddShape shape) {
  constexpr int kPack = Pack<T>::kCount;
  __shared__ float own[kMostRows][R];
  const int first = blockIdx.x * shape.tile, rows = min(shape.tile, shape.rows - first);
  for (int i = threadIdx.x; i < rows * R; i += kAddThreads) own[i / R][i % R] = to_float(p[(first + i / R) * shape.p_stride + i % R]);
  __syncthreads();
  const int column = blockIdx.y * kAddThreads + threadIdx.x;
  if (column >= shape.packs) return;
  float factors[R][kPack];
  if constexpr (kAcross) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const auto pack = load_pack(factor + (static_cast<int64_t>(r) * shape.packs + column) * kPack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) factors[r][j] = to_float(pack.values[j]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kPack; ++j)
#pragma unroll
      for (int r = 0; r < R; r += kPack) {
        const auto pack = load_pack(factor + (static_cast<int64_t>(column) * kPack + j) * R + r);
#pragma unroll
        for (int k = 0; k < kPack; ++k) factors[r + k][j] = to_float(pack.values[k]);
      }
  }
  T* place = y + first * shape.y_stride + column * kPack;
  for (int begin = 0; begin < rows; begin += kRowsAtOnce) {
    Pack<T> packs[kRowsAtOnce];  // all asked for before the first is used
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k)
      if (begin + k < rows) packs[k] = load_pack(place + (begin + k) * shape.y_stride);
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (begin + k >= rows) break;
      float sums[kPack];
#pragma unroll
      for (int j = 0; j < kPack; ++j) sums[j] = to_float(packs[k].values[j]);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const float weight = own[begin + k][r];
#pragma unroll
        for (int j = 0; j < kPack; ++j) sums[j] += weight * factors[r][j];
      }
#pragma unroll
      for (int j = 0; j < kPack; ++j) packs[k].values[j] = from_float<T>(sums[j]);
      store_pack(place + (begin + k) * shape.y_stride, packs[k]);
    }
  }
}


template <class T, int R>
void launch_add(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, bool across) {
  const int packs = static_cast<int>(y.size(1)) / Pack<T>::kCount, rows = static_cast<int>(y.size(0)), column_blocks = (packs + kAddThreads - 1) / kAddThreads;
  AddShape shape{packs, rows, tile_for(rows, column_blocks, kMostRows, kRowsAtOnce), y.stride(0), p.stride(0)};
  dim3 grid(static_cast<unsigned>((rows + shape.tile - 1) / shape.tile), static_cast<unsigned>(column_blocks));
  auto stream = c10::cuda::getCurrentCUDAStream();
  if (across) low_rank_add_kernel<T, R, true><<<grid, kAddThreads, 0, stream>>>(mutable_data<T>(y), data<T>(p), data<T>(factor), shape);
  else low_rank_add_kernel<T, R, false><<<grid, kAddThreads, 0, stream>>>(mutable_data<T>(y), data<T>(p), data<T>(factor), shape);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

bool serves_low_rank_add(const at::Tensor& y, int64_t rank) { return serves_rows(y) && y.element_size() == 2 && (rank == 8 || rank == 16); }

void low_rank_add_(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, bool across) {
  TORCH_CHECK(factor.is_contiguous() && p.stride(1) == 1, "factors lie row by row");
  const bool narrow = p.size(1) == 8;
  if (y.scalar_type() == at::kHalf) narrow ? launch_add<__half, 8>(y, p, factor, across) : launch_add<__half, 16>(y, p, factor, across);
  else narrow ? launch_add<__nv_bfloat16, 8>(y, p, factor, across) : launch_add<__nv_bfloat16, 16>(y, p, factor, across);
}

}  // namespace hone::ops::cuda
