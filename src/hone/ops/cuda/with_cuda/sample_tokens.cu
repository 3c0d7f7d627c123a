#include "hone/ops/cuda/sample_tokens.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kThreads = 1024;

__device__ inline uint64_t mixed(uint64_t z) {  // splitmix64's finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__device__ inline float gumbel(uint64_t key, int token) {
  const uint64_t bits = mixed(key + static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15ull);
  const float uniform = (static_cast<float>(bits >> 40) + 0.5f) * 0x1.0p-24f;
  return -logf(-logf(uniform));
}

__device__ inline bool better(float value, int token, float best, int best_token) { return value > best || (value == best && token < best_token); }

// One block per row. Of equal values the lower token wins, so that the answer does not depend on the order of threads.
struct Draw {
  int64_t key;
  double temperature;
};
template <class T>
__global__ void __launch_bounds__(kThreads) choose_kernel(const T* logits, const Draw* draws, int64_t* chosen, int vocabulary) {
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * vocabulary;
  const auto temperature = static_cast<float>(draws[blockIdx.x].temperature);
  const auto key = static_cast<uint64_t>(draws[blockIdx.x].key);
  float best = -INFINITY;
  int best_token = vocabulary;
  for (int token = threadIdx.x; token < vocabulary; token += kThreads) {
    float value = to_float(row[token]);
    if (temperature > 0) value = value / temperature + gumbel(key, token);
    if (better(value, token, best, best_token)) best = value, best_token = token;
  }
  __shared__ float values[kThreads];
  __shared__ int tokens[kThreads];
  values[threadIdx.x] = best, tokens[threadIdx.x] = best_token;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    int other = threadIdx.x + width;
    if (static_cast<int>(threadIdx.x) < width && better(values[other], tokens[other], values[threadIdx.x], tokens[threadIdx.x]))
      values[threadIdx.x] = values[other], tokens[threadIdx.x] = tokens[other];
  }
  if (threadIdx.x == 0) chosen[blockIdx.x] = min(tokens[0], vocabulary - 1);
}

}  // namespace

bool supports_sampling(const at::Tensor& logits) { return logits.is_cuda(); }

at::Tensor sample_tokens(const at::Tensor& logits_in, const SamplingTensors& draws) {
  auto logits = logits_in.contiguous();
  auto host = at::empty({logits.size(0), 2}, at::TensorOptions(at::kLong).pinned_memory(true));
  auto* rows = reinterpret_cast<Draw*>(host.mutable_data_ptr<int64_t>());
  for (size_t i = 0; i < draws.keys.size(); ++i) rows[i] = {draws.keys[i], draws.temperatures[i]};
  auto settings = host.to(logits.device(), /*non_blocking=*/true);
  auto chosen = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    choose_kernel<T><<<static_cast<unsigned>(logits.size(0)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(logits), reinterpret_cast<const Draw*>(settings.const_data_ptr<int64_t>()), chosen.mutable_data_ptr<int64_t>(), static_cast<int>(logits.size(1)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return chosen;
}

}  // namespace hone::ops::cuda
