#include "hone/ops/cuda/sample_tokens.h"
#include "hone/ops/cuda/with_cuda/argmax_key.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kSamplingThreads = 256;

__device__ inline uint64_t mixed(uint64_t z) {  // splitmix64's finalizer
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__device__ inline float gumbel(uint64_t key, int token) {
  const uint64_t bits = mixed(key + static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15ull);
  const float uniform = (static_cast<float>(bits >> 40) + 0.5f) * 0x1.0p-24f;
  return -logf(-logf(uniform));
}

struct Draw {
  int64_t key;
  double temperature;
};
// One block per part of a row, kPack tokens per thread and iteration.
template <class T, int kPack>
__global__ void __launch_bounds__(kSamplingThreads)
    choose_kernel(const T* logits, const Draw* draws, ArgmaxKey* part_best, int vocabulary, int part) {
  const T* row = logits + static_cast<int64_t>(blockIdx.y) * vocabulary;
  const auto temperature = static_cast<float>(draws[blockIdx.y].temperature);
  const auto key = static_cast<uint64_t>(draws[blockIdx.y].key);
  float best = -INFINITY;
  int best_token = vocabulary;
  const int begin = blockIdx.x * part, end = min(vocabulary, begin + part);
  for (int first = begin + threadIdx.x * kPack; first < end; first += kSamplingThreads * kPack) {
    T values[kPack];
    if constexpr (kPack == Pack<T>::kCount)
      *reinterpret_cast<Pack<T>*>(values) = load_pack(row + first);
    else
      values[0] = row[first];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      float value = to_float(values[i]);
      if (temperature > 0) value = value / temperature + gumbel(key, first + i);
      if (value > best) best = value, best_token = first + i;  // tokens are in ascending order
    }
  }
  __shared__ ArgmaxKey found[kSamplingThreads / 32];
  const auto own = warp_max(argmax_key(best, best_token));
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const auto block_best = warp_max(threadIdx.x < kSamplingThreads / 32 ? found[threadIdx.x] : ArgmaxKey{0});
  if (threadIdx.x == 0) part_best[blockIdx.y * gridDim.x + blockIdx.x] = block_best;
}

// One warp per row: the best of its parts.
__global__ void best_kernel(const ArgmaxKey* part_best, int64_t* chosen, int parts, int vocabulary) {
  const int64_t own = static_cast<int64_t>(blockIdx.x) * parts + threadIdx.x;
  const auto best = warp_max(static_cast<int>(threadIdx.x) < parts ? part_best[own] : ArgmaxKey{0});
  if (threadIdx.x == 0) chosen[blockIdx.x] = min(index_of(best), vocabulary - 1);
}

// Enough blocks to fill the device; parts are multiples of a pack.
int parts_for(int64_t rows) { return static_cast<int>(std::clamp<int64_t>(132 * 8 / std::max<int64_t>(rows, 1), 1, 32)); }

}  // namespace

bool supports_sampling(const at::Tensor& logits) { return logits.is_cuda(); }

at::Tensor sample_tokens(const at::Tensor& logits_in, const SamplingTensors& draws) {
  auto logits = logits_in.contiguous();
  auto host = at::empty({logits.size(0), 2}, at::TensorOptions(at::kLong).pinned_memory(true));
  auto* given = reinterpret_cast<Draw*>(host.mutable_data_ptr<int64_t>());
  for (size_t i = 0; i < draws.keys.size(); ++i) given[i] = {draws.keys[i], draws.temperatures[i]};
  auto settings = host.to(logits.device(), /*non_blocking=*/true);
  auto chosen = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  const auto rows = static_cast<unsigned>(logits.size(0));
  const int vocabulary = static_cast<int>(logits.size(1)), parts = parts_for(rows),
            part = (vocabulary + parts * 8 - 1) / (parts * 8) * 8;
  auto part_best = at::empty({rows, parts}, chosen.options());
  auto* keys_to = reinterpret_cast<ArgmaxKey*>(part_best.mutable_data_ptr<int64_t>());
  auto stream = c10::cuda::getCurrentCUDAStream();
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto kernel = vocabulary % Pack<T>::kCount == 0 ? choose_kernel<T, Pack<T>::kCount> : choose_kernel<T, 1>;
    kernel<<<dim3(static_cast<unsigned>(parts), rows), kSamplingThreads, 0, stream>>>(
        data<T>(logits), reinterpret_cast<const Draw*>(settings.const_data_ptr<int64_t>()), keys_to, vocabulary, part);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  best_kernel<<<rows, 32, 0, stream>>>(keys_to, chosen.mutable_data_ptr<int64_t>(), parts, vocabulary);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return chosen;
}

}  // namespace hone::ops::cuda
