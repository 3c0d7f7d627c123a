// A row is kept in registers between its statistics and its use: by a block, or by a warp where the weight trains and rows are narrow. Where it
// trains, a block or warp takes many rows, so that the weight's gradient is added up in registers and leaves as one row of sums.
#include "hone/ops/cuda/norm.h"

#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kNormThreads = 256, kMostPacks = 4, kWarpPacks = 8, kTrainedBlocks = 132 * 2;  // as many as are on the device at a time

__device__ inline float sum_of_block(float value) {
  __shared__ float parts[kNormThreads / 32];
  value = warp_sum(value);
  __syncthreads();  // the parts of the row before are read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) total += parts[i];
  return total;
}

template <class T>
__global__ void __launch_bounds__(kNormThreads) norm_kernel(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int packs, float eps) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * packs * kPack;
  Pack<T> own[kMostPacks], other[kMostPacks];
#pragma unroll
  for (int k = 0; k < kMostPacks; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= packs) break;
    own[k] = load_pack(x + row + i * kPack);
    if (added) other[k] = load_pack(added + row + i * kPack);
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kMostPacks; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= packs) break;
    if (added) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) own[k].values[j] = from_float<T>(to_float(own[k].values[j]) + to_float(other[k].values[j]));
      store_pack(sum + row + i * kPack, own[k]);
    }
#pragma unroll
    for (int j = 0; j < kPack; ++j) squares += to_float(own[k].values[j]) * to_float(own[k].values[j]);
  }
  const float inverse = rsqrtf(sum_of_block(squares) / static_cast<float>(packs * kPack) + eps);
  if (threadIdx.x == 0) rstd[blockIdx.x] = inverse;
#pragma unroll
  for (int k = 0; k < kMostPacks; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= packs) break;
    const auto scale = load_pack(weight + i * kPack);
#pragma unroll
    for (int j = 0; j < kPack; ++j) own[k].values[j] = from_float<T>(to_float(own[k].values[j]) * inverse * to_float(scale.values[j]));
    store_pack(y + row + i * kPack, own[k]);
  }
}

template <class T>
struct NormBackward {
  const T *dy, *x, *weight;
  const float* rstd;
  const T* dsum;  // null: nothing else flows into the rows
  T* dx;
  float* dweight;  // a row of sums per block or warp
  int packs, rows;
};

// kWarp: a warp has a row, else a block. A lane of it has up to kPacks packs.
template <class T, bool kTrains, bool kWarp, int kPacks>
__global__ void __launch_bounds__(kNormThreads) norm_backward_kernel(NormBackward<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  const int size = kWarp ? 32 : blockDim.x, lane = threadIdx.x % size, teams = kWarp ? gridDim.x * (blockDim.x / 32) : gridDim.x;
  const int team = kWarp ? (blockIdx.x * blockDim.x + threadIdx.x) / 32 : blockIdx.x;
  float sums[kTrains ? kPacks : 1][kPack] = {};
  for (int row = team; row < a.rows; row += teams) {
    const int64_t begin = static_cast<int64_t>(row) * a.packs * kPack;
    const float inverse = a.rstd[row];
    Pack<T> grads[kPacks], values[kPacks], others[kPacks];  // all asked for before the first is used
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = lane + k * size;
      if (i >= a.packs) break;
      grads[k] = load_pack(a.dy + begin + i * kPack);
      values[k] = load_pack(a.x + begin + i * kPack);
      if (a.dsum) others[k] = load_pack(a.dsum + begin + i * kPack);
    }
    float dot = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = lane + k * size;
      if (i >= a.packs) break;
      const auto scale = load_pack(a.weight + i * kPack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float normed = to_float(values[k].values[j]) * inverse, grad = to_float(grads[k].values[j]);
        dot += grad * to_float(scale.values[j]) * normed;
        if constexpr (kTrains) sums[k][j] += grad * normed;
      }
    }
    const float mean = (kWarp ? warp_sum(dot) : sum_of_block(dot)) / static_cast<float>(a.packs * kPack);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = lane + k * size;
      if (i >= a.packs) break;
      const auto scale = load_pack(a.weight + i * kPack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float normed = to_float(values[k].values[j]) * inverse;
        float found = inverse * (to_float(grads[k].values[j]) * to_float(scale.values[j]) - normed * mean);
        if (a.dsum) found += to_float(others[k].values[j]);
        values[k].values[j] = from_float<T>(found);
      }
      store_pack(a.dx + begin + i * kPack, values[k]);
    }
  }
  if constexpr (kTrains) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = lane + k * size;
      if (i >= a.packs) break;
      float4* to = reinterpret_cast<float4*>(a.dweight + (static_cast<int64_t>(team) * a.packs + i) * kPack);
#pragma unroll
      for (int j = 0; j < kPack; j += 4) to[j / 4] = make_float4(sums[k][j], sums[k][j + 1], sums[k][j + 2], sums[k][j + 3]);
    }
  }
}

int threads_for(int packs) { return packs <= 128 * kMostPacks ? 128 : kNormThreads; }

// Rows of sums that the backward kernel leaves where the weight trains: one per warp or block.
struct NormGrid {
  int blocks, threads, teams;
  bool by_warp;
};
NormGrid backward_grid(int packs, int rows, bool trains) {
  if (!trains) return {rows, threads_for(packs), 0, false};
  if (packs > 32 * kWarpPacks) {
    const int blocks = std::min(rows, kTrainedBlocks);
    return {blocks, threads_for(packs), blocks, false};
  }
  constexpr int kWarps = 4;
  const int blocks = std::min((rows + kWarps - 1) / kWarps, kTrainedBlocks);
  return {blocks, 32 * kWarps, blocks * kWarps, true};
}

}  // namespace

bool serves_norm(const at::Tensor& x, const at::Tensor& weight) {
  constexpr int64_t kLeast = 512;  // narrower rows, those of heads, would leave most of a block idle
  return serves_rows(x) && x.is_contiguous() && x.scalar_type() == weight.scalar_type() && x.size(1) >= kLeast &&
         x.size(1) * x.element_size() <= 16 * kMostPacks * kNormThreads && weight.is_contiguous() && reinterpret_cast<uint64_t>(weight.const_data_ptr()) % 16 == 0;
}

NormedRows rms_norm_rows(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight, double eps) {
  NormedRows found{added.defined() ? at::empty_like(x) : at::Tensor(), at::empty_like(x), at::empty({x.size(0)}, x.options().dtype(at::kFloat))};
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(x.size(1)) / Pack<T>::kCount;
    norm_kernel<T><<<static_cast<unsigned>(x.size(0)), threads_for(packs), 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(x), added.defined() ? data<T>(added) : nullptr, data<T>(weight), added.defined() ? mutable_data<T>(found.sum) : nullptr, mutable_data<T>(found.y),
        found.rstd.template mutable_data_ptr<float>(), packs, static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return found;
}

NormGradients rms_norm_rows_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd, const at::Tensor& dsum, bool trains) {
  NormGradients found{at::empty_like(x), {}};
  at::Tensor partial;
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(x.size(1)) / Pack<T>::kCount, rows = static_cast<int>(x.size(0));
    const auto grid = backward_grid(packs, rows, trains);
    if (trains) partial = at::empty({grid.teams, x.size(1)}, x.options().dtype(at::kFloat));
    NormBackward<T> arguments{data<T>(dy),          data<T>(x), data<T>(weight), rstd.const_data_ptr<float>(), dsum.defined() ? data<T>(dsum) : nullptr,
                              mutable_data<T>(found.x), trains ? partial.template mutable_data_ptr<float>() : nullptr, packs, rows};
    auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads), 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    };
    if (!trains) launch(norm_backward_kernel<T, false, false, kMostPacks>);
    else if (grid.by_warp) launch(norm_backward_kernel<T, true, true, kWarpPacks>);
    else launch(norm_backward_kernel<T, true, false, kMostPacks>);
  });
  if (trains) found.weight = partial.sum(0).to(weight.scalar_type());
  return found;
}

}  // namespace hone::ops::cuda
