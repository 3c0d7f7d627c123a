// A block keeps a row in registers between its statistics and its use, with few packs per thread for high occupancy. If the
// weight trains, a block processes many rows in the backward pass: the weight's gradient accumulates in registers and is written
// as one row of sums per block.
#include "hone/ops/cuda/norm.h"

#include "hone/ops/cuda/column_sums.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kNormThreads = 256, kMostNormPacks = 4, kTrainedNormBlocks = 132 * 6;

__device__ inline float sum_of_block(float value) {
  __shared__ float parts[kNormThreads / 32];
  value = warp_sum(value);
  __syncthreads();  // the previous row's partial sums have been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) total += parts[i];
  return total;
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int packs, float eps, float offset) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * packs * kPack;
  let_next_begin();
  wait_for_previous();
  Pack<T> own[kPacks], other[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= packs) break;
    own[k] = load_pack(x + row + i * kPack);
    if (added) other[k] = load_pack(added + row + i * kPack);
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
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
  for (int k = 0; k < kPacks; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= packs) break;
    const auto scale = load_pack(weight + i * kPack);
    auto values = floats_of(own[k]);
#pragma unroll
    for (int j = 0; j < kPack; ++j) values.values[j] *= inverse * (to_float(scale.values[j]) + offset);
    store_pack(y + row + i * kPack, rounded_pack(values));
  }
}

template <class T>
struct NormBackward {
  const T *dy, *x, *weight;
  const float* rstd;
  const T* dsum;  // null: no other gradient of the rows
  T* dx;
  float* dweight;  // a row of sums per block
  int packs, rows;
  float offset;  // of the weight
};

template <class T, bool kTrains, int kPacks>
__global__ void __launch_bounds__(kNormThreads) norm_backward_kernel(NormBackward<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  float sums[kTrains ? kPacks : 1][kPack] = {};
  for (int row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = static_cast<int64_t>(row) * a.packs * kPack;
    const float inverse = a.rstd[row];
    Pack<T> grads[kPacks], values[kPacks], others[kPacks];  // all loads are issued before the first is used
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = threadIdx.x + k * blockDim.x;
      if (i >= a.packs) break;
      grads[k] = load_pack(a.dy + begin + i * kPack);
      values[k] = load_pack(a.x + begin + i * kPack);
      if (a.dsum) others[k] = load_pack(a.dsum + begin + i * kPack);
    }
    float dot = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = threadIdx.x + k * blockDim.x;
      if (i >= a.packs) break;
      const auto scale = load_pack(a.weight + i * kPack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float normed = to_float(values[k].values[j]) * inverse, grad = to_float(grads[k].values[j]);
        dot += grad * (to_float(scale.values[j]) + a.offset) * normed;
        if constexpr (kTrains) sums[k][j] += grad * normed;
      }
    }
    const float mean = sum_of_block(dot) / static_cast<float>(a.packs * kPack);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = threadIdx.x + k * blockDim.x;
      if (i >= a.packs) break;
      const auto scale = load_pack(a.weight + i * kPack);
      PackFloats<T> found;
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float normed = to_float(values[k].values[j]) * inverse;
        found.values[j] = inverse * (to_float(grads[k].values[j]) * (to_float(scale.values[j]) + a.offset) - normed * mean);
        if (a.dsum) found.values[j] += to_float(others[k].values[j]);
      }
      store_pack(a.dx + begin + i * kPack, rounded_pack(found));
    }
  }
  if constexpr (kTrains) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = threadIdx.x + k * blockDim.x;
      if (i >= a.packs) break;
      float4* to = reinterpret_cast<float4*>(a.dweight + (static_cast<int64_t>(blockIdx.x) * a.packs + i) * kPack);
#pragma unroll
      for (int j = 0; j < kPack; j += 4) to[j / 4] = make_float4(sums[k][j], sums[k][j + 1], sums[k][j + 2], sums[k][j + 3]);
    }
  }
}

// One pack per thread if a block has enough threads, otherwise two or four.
template <class Launch>
void with_packs(int packs, Launch launch) {
  const int threads = std::min((packs + 31) / 32 * 32, kNormThreads);
  if (packs <= kNormThreads) return launch(std::integral_constant<int, 1>{}, threads);
  if (packs <= 2 * kNormThreads) return launch(std::integral_constant<int, 2>{}, threads);
  launch(std::integral_constant<int, kMostNormPacks>{}, threads);
}

}  // namespace

bool supports_norm(const at::Tensor& x, const at::Tensor& weight) {
  constexpr int64_t kLeast = 512;  // narrower rows (of heads) would leave most of a block idle
  return supports_rows(x) && x.is_contiguous() && x.scalar_type() == weight.scalar_type() && x.size(1) >= kLeast &&
         x.size(1) * x.element_size() <= 16 * kMostNormPacks * kNormThreads && weight.is_contiguous() &&
         reinterpret_cast<uint64_t>(weight.const_data_ptr()) % 16 == 0;
}

NormedRows rms_norm_rows(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight, double eps, double offset) {
  NormedRows found{added.defined() ? at::empty_like(x) : at::Tensor(), at::empty_like(x),
                   at::empty({x.size(0)}, x.options().dtype(at::kFloat))};
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(x.size(1)) / Pack<T>::kCount;
    with_packs(packs, [&](auto of_thread, int threads) {
      launch_dependent(norm_kernel<T, of_thread()>, static_cast<unsigned>(x.size(0)), threads, c10::cuda::getCurrentCUDAStream(),
                       data<T>(x), added.defined() ? data<T>(added) : nullptr, data<T>(weight),
                       added.defined() ? mutable_data<T>(found.sum) : nullptr, mutable_data<T>(found.y),
                       found.rstd.template mutable_data_ptr<float>(), packs, static_cast<float>(eps), static_cast<float>(offset));
    });
  });
  return found;
}

NormGradients rms_norm_rows_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd,
                                     const at::Tensor& dsum, double offset, bool trains) {
  NormGradients found{at::empty_like(x), {}};
  at::Tensor partial;
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(x.size(1)) / Pack<T>::kCount, rows = static_cast<int>(x.size(0));
    const int blocks = trains ? std::min(rows, kTrainedNormBlocks) : rows;
    if (trains) partial = at::empty({blocks, x.size(1)}, x.options().dtype(at::kFloat));
    NormBackward<T> arguments{data<T>(dy),
                              data<T>(x),
                              data<T>(weight),
                              rstd.const_data_ptr<float>(),
                              dsum.defined() ? data<T>(dsum) : nullptr,
                              mutable_data<T>(found.x),
                              trains ? partial.template mutable_data_ptr<float>() : nullptr,
                              packs,
                              rows,
                              static_cast<float>(offset)};
    with_packs(packs, [&](auto of_thread, int threads) {
      auto launch = [&](auto kernel) {
        kernel<<<static_cast<unsigned>(blocks), threads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
      };
      trains ? launch(norm_backward_kernel<T, true, of_thread()>) : launch(norm_backward_kernel<T, false, of_thread()>);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  if (trains) found.weight = total_of_sums(partial, weight.scalar_type());
  return found;
}

}  // namespace hone::ops::cuda
