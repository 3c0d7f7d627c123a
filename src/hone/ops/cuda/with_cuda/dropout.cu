// Counter-based dropout (philox.cuh). Seed and offset are the device generator's, read on the device, so that a captured graph
// draws again in every replay.
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/philox.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kDropThreads = 256;
constexpr uint64_t kOffsetStep = 4;  // libtorch's generator counts in fours

template <class T>
__device__ inline Pack<T> dropped_pack(Pack<T> x, uint64_t seed, uint64_t index, uint64_t offset, DropRates rates) {
  const auto factors = drop_factors<Pack<T>::kCount>(seed, index, offset, rates);
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j)
    x.values[j] = from_float<T>(factors.values[j] == 0.0f ? 0.0f : to_float(x.values[j]) * factors.values[j]);
  return x;
}

template <class T>
__global__ void drop_kernel(const T* x, T* y, int64_t packs, DropRates rates, at::PhiloxCudaState state, int64_t* draw) {
  // In a captured graph both numbers are on the device, and the offset is relative to the start of the replay.
  const uint64_t seed = state.captured_ ? static_cast<uint64_t>(*state.seed_.ptr) : state.seed_.val;
  const uint64_t offset =
      state.captured_ ? static_cast<uint64_t>(*state.offset_.ptr) + state.offset_intragraph_ : state.offset_.val;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (first == 0) draw[0] = static_cast<int64_t>(seed), draw[1] = static_cast<int64_t>(offset);
  for (int64_t i = first; i < packs; i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    store_pack(y + i * Pack<T>::kCount, dropped_pack(load_pack(x + i * Pack<T>::kCount), seed, i, offset, rates));
}

template <class T, bool kAdd>
__global__ void drop_again_kernel(const T* x, T* y, int64_t packs, DropRates rates, const int64_t* draw) {
  const uint64_t seed = static_cast<uint64_t>(draw[0]), offset = static_cast<uint64_t>(draw[1]);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    auto pack = dropped_pack(load_pack(x + i * Pack<T>::kCount), seed, i, offset, rates);
    if constexpr (kAdd) {
      auto sum = load_pack(y + i * Pack<T>::kCount);
#pragma unroll
      for (int j = 0; j < Pack<T>::kCount; ++j)
        pack.values[j] = from_float<T>(to_float(sum.values[j]) + to_float(pack.values[j]));
    }
    store_pack(y + i * Pack<T>::kCount, pack);
  }
}

unsigned drop_blocks(int64_t packs) {
  return static_cast<unsigned>(std::min<int64_t>((packs + kDropThreads - 1) / kDropThreads, 132 * 16));
}

template <bool kAdd>
void launch_again(const at::Tensor& x, const at::Tensor& y, double dropout, const at::Tensor& draw) {
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int64_t packs = x.numel() / Pack<T>::kCount;
    drop_again_kernel<T, kAdd><<<drop_blocks(packs), kDropThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(x), mutable_data<T>(y), packs, rates_of(dropout), draw.const_data_ptr<int64_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

Dropped drop(const at::Tensor& input, double dropout) {
  auto x = input.contiguous();
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      std::nullopt, at::cuda::detail::getDefaultCUDAGenerator(x.get_device()));
  at::PhiloxCudaState state;
  {
    std::lock_guard lock(generator->mutex_);
    state = generator->philox_cuda_state(kOffsetStep);
  }
  Dropped dropped{at::empty_like(x), at::empty({2}, x.options().dtype(at::kLong))};
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int64_t packs = x.numel() / Pack<T>::kCount;
    drop_kernel<T><<<drop_blocks(packs), kDropThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(x), mutable_data<T>(dropped.values), packs, rates_of(dropout), state,
        dropped.draw.template mutable_data_ptr<int64_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return dropped;
}

at::Tensor drop_again(const at::Tensor& input, double dropout, const at::Tensor& draw) {
  auto x = input.contiguous();
  auto y = at::empty_like(x);
  launch_again<false>(x, y, dropout, draw);
  return y;
}

void add_dropped_(const at::Tensor& sum, const at::Tensor& x, double dropout, const at::Tensor& draw) {
  TORCH_CHECK(sum.is_contiguous() && x.is_contiguous(), "sums of dropped rows are contiguous");
  launch_again<true>(x, sum, dropout, draw);
}

}  // namespace hone::ops::cuda
