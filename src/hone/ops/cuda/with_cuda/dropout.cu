// Dropout by counters. Pack i of a tensor takes the bits that Philox gives for the counter (i, offset) under the key `seed`; both numbers are the
// device generator's, read on the device, so that a captured graph draws again in every replay.
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kDropThreads = 256;
constexpr uint64_t kOffsetStep = 4;  // libtorch's generator counts in fours

// Philox 4x32 of seven rounds (Salmon et al. 2011), which passes the same tests as ten.
__device__ inline uint4 philox(uint64_t seed, uint64_t index, uint64_t offset) {
  uint4 counter{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const uint64_t first = static_cast<uint64_t>(0xD2511F53u) * counter.x, second = static_cast<uint64_t>(0xCD9E8D57u) * counter.z;
    counter = {static_cast<uint32_t>(second >> 32) ^ counter.y ^ key0, static_cast<uint32_t>(second), static_cast<uint32_t>(first >> 32) ^ counter.w ^ key1,
               static_cast<uint32_t>(first)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

struct DropRates {
  uint32_t threshold;  // sixteen bits below this drop the element
  float factor;
};

DropRates rates_of(double dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout * 65536.0));
  return {threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

template <class T>
__device__ inline Pack<T> dropped_pack(Pack<T> x, uint64_t seed, uint64_t index, uint64_t offset, DropRates rates) {
  const uint4 bits = philox(seed, index, offset);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const uint32_t own = (words[j / 2] >> (16 * (j % 2))) & 0xffffu;
    x.values[j] = from_float<T>(own < rates.threshold ? 0.0f : to_float(x.values[j]) * rates.factor);
  }
  return x;
}

template <class T>
__global__ void drop_kernel(const T* x, T* y, int64_t packs, DropRates rates, at::PhiloxCudaState state, int64_t* draw) {
  // In a captured graph both numbers are on the device, and the offset counts from where a replay begins.
  const uint64_t seed = state.captured_ ? static_cast<uint64_t>(*state.seed_.ptr) : state.seed_.val;
  const uint64_t offset = state.captured_ ? static_cast<uint64_t>(*state.offset_.ptr) + state.offset_intragraph_ : state.offset_.val;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (first == 0) draw[0] = static_cast<int64_t>(seed), draw[1] = static_cast<int64_t>(offset);
  for (int64_t i = first; i < packs; i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    store_pack(y + i * Pack<T>::kCount, dropped_pack(load_pack(x + i * Pack<T>::kCount), seed, i, offset, rates));
}

template <class T, bool kAdd>
__global__ void drop_again_kernel(const T* x, T* y, int64_t packs, DropRates rates, const int64_t* draw) {
  const uint64_t seed = static_cast<uint64_t>(draw[0]), offset = static_cast<uint64_t>(draw[1]);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    auto pack = dropped_pack(load_pack(x + i * Pack<T>::kCount), seed, i, offset, rates);
    if constexpr (kAdd) {
      auto sum = load_pack(y + i * Pack<T>::kCount);
#pragma unroll
      for (int j = 0; j < Pack<T>::kCount; ++j) pack.values[j] = from_float<T>(to_float(sum.values[j]) + to_float(pack.values[j]));
    }
    store_pack(y + i * Pack<T>::kCount, pack);
  }
}

unsigned drop_blocks(int64_t packs) { return static_cast<unsigned>(std::min<int64_t>((packs + kDropThreads - 1) / kDropThreads, 132 * 16)); }

template <bool kAdd>
void launch_again(const at::Tensor& x, const at::Tensor& y, double dropout, const at::Tensor& draw) {
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int64_t packs = x.numel() / Pack<T>::kCount;
    drop_again_kernel<T, kAdd><<<drop_blocks(packs), kDropThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(data<T>(x), mutable_data<T>(y), packs, rates_of(dropout),
                                                                                                         draw.const_data_ptr<int64_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

Dropped drop(const at::Tensor& input, double dropout) {
  auto x = input.contiguous();
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(std::nullopt, at::cuda::detail::getDefaultCUDAGenerator(x.get_device()));
  at::PhiloxCudaState state;
  {
    std::lock_guard lock(generator->mutex_);
    state = generator->philox_cuda_state(kOffsetStep);
  }
  Dropped dropped{at::empty_like(x), at::empty({2}, x.options().dtype(at::kLong))};
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int64_t packs = x.numel() / Pack<T>::kCount;
    drop_kernel<T><<<drop_blocks(packs), kDropThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(data<T>(x), mutable_data<T>(dropped.values), packs, rates_of(dropout),
                                                                                             state, dropped.draw.template mutable_data_ptr<int64_t>());
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
