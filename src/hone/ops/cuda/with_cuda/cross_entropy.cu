// Cross-entropy of rows of logits: one block per row, which it reads twice and writes once.
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kEntropyThreads = 512;
constexpr int64_t kNoTarget = -100;

// Of a part of a row: the maximum and its index, the sum of exp(value - maximum), and the plain sum.
struct RowPart {
  float peak = -INFINITY, total = 0, sum = 0;
  int place = 0x7fffffff;
};

__device__ inline void meet(RowPart& own, const RowPart& other) {
  const float peak = fmaxf(own.peak, other.peak);
  if (other.peak > own.peak || (other.peak == own.peak && other.place < own.place)) own.place = other.place;
  const float left = own.peak == -INFINITY ? 0.0f : own.total * __expf(own.peak - peak),
              right = other.peak == -INFINITY ? 0.0f : other.total * __expf(other.peak - peak);
  own.total = left + right;
  own.sum += other.sum;
  own.peak = peak;
}

__device__ inline RowPart of_block(RowPart own) {
  __shared__ RowPart parts[kEntropyThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    RowPart other{__shfl_xor_sync(0xffffffffu, own.peak, offset), __shfl_xor_sync(0xffffffffu, own.total, offset),
                  __shfl_xor_sync(0xffffffffu, own.sum, offset), __shfl_xor_sync(0xffffffffu, own.place, offset)};
    meet(own, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  RowPart all = parts[0];
  for (int i = 1; i < kEntropyThreads / 32; ++i) meet(all, parts[i]);
  return all;
}

template <class T>
__global__ void __launch_bounds__(kEntropyThreads)
    cross_entropy_kernel(T* logits, const int64_t* targets, const float* weights, float smoothing, bool into_gradient,
                         float* losses, int64_t* correct, int vocabulary) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t row = blockIdx.x, target = targets[row];
  const int packs = vocabulary / kPack;
  T* own = logits + row * vocabulary;
  if (target == kNoTarget) {
    if (threadIdx.x == 0) losses[row] = 0, correct[row] = 0;
    Pack<T> zero;
    for (int j = 0; j < kPack; ++j) zero.values[j] = from_float<T>(0.0f);
    for (int i = threadIdx.x; into_gradient && i < packs; i += kEntropyThreads) store_pack(own + i * kPack, zero);
    return;
  }
  RowPart part;
  for (int i = threadIdx.x; i < packs; i += kEntropyThreads) {
    const auto pack = load_pack(own + i * kPack);
    float peak = part.peak, values[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      values[j] = to_float(pack.values[j]);
      part.sum += values[j];
      if (values[j] > peak) peak = values[j], part.place = i * kPack + j;
    }
    part.total *= peak > part.peak ? __expf(part.peak - peak) : 1.0f;
#pragma unroll
    for (int j = 0; j < kPack; ++j) part.total += __expf(values[j] - peak);
    part.peak = peak;
  }
  const float at_target = to_float(own[target]);
  const RowPart all = of_block(part);
  const float normalizer = all.peak + __logf(all.total), weight = weights ? weights[row] : 1.0f,
              even = smoothing / static_cast<float>(vocabulary);
  if (threadIdx.x == 0) {
    losses[row] = weight * (normalizer - (1.0f - smoothing) * at_target - even * all.sum);
    correct[row] = all.place == target;
  }
  if (!into_gradient) return;
  for (int i = threadIdx.x; i < packs; i += kEntropyThreads) {
    auto pack = load_pack(own + i * kPack);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float hit = i * kPack + j == target ? 1.0f - smoothing : 0.0f;
      pack.values[j] = from_float<T>(weight * (__expf(to_float(pack.values[j]) - normalizer) - even - hit));
    }
    store_pack(own + i * kPack, pack);
  }
}

}  // namespace

bool supports_cross_entropy(const at::Tensor& hidden, int64_t vocabulary) {
  return hidden.is_cuda() &&
         (hidden.scalar_type() == at::kFloat || hidden.scalar_type() == at::kHalf || hidden.scalar_type() == at::kBFloat16) &&
         vocabulary % 8 == 0 && vocabulary > 0;
}

void cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights, double smoothing,
                        bool into_gradient, const at::Tensor& losses, const at::Tensor& correct) {
  TORCH_CHECK(logits.is_contiguous(), "logits lie end to end");
  if (logits.size(0) == 0) return;
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    cross_entropy_kernel<T><<<static_cast<unsigned>(logits.size(0)), kEntropyThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        mutable_data<T>(logits), targets.const_data_ptr<int64_t>(), weights.defined() ? weights.const_data_ptr<float>() : nullptr,
        static_cast<float>(smoothing), into_gradient, losses.mutable_data_ptr<float>(), correct.mutable_data_ptr<int64_t>(),
        static_cast<int>(logits.size(1)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace hone::ops::cuda
