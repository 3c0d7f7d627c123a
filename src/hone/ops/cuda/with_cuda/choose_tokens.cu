#include "hone/ops/cuda/choose_tokens.h"
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
template <class T>
__global__ void __launch_bounds__(kThreads) choose_kernel(const T* logits, const float* temperatures, const int64_t* keys, int64_t* chosen, int vocabulary) {
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * vocabulary;
  const float temperature = temperatures[blockIdx.x];
  const auto key = static_cast<uint64_t>(keys[blockIdx.x]);
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

bool draws_tokens(const at::Tensor& logits) { return logits.is_cuda(); }

at::Tensor choose_tokens(const at::Tensor& logits_in, const DrawSettings& draws) {
  auto logits = logits_in.contiguous();
  auto temperatures = at::tensor(draws.temperatures, at::TensorOptions(at::kFloat)).to(logits.device());
  auto keys = at::tensor(draws.keys, at::TensorOptions(at::kLong)).to(logits.device());
  auto chosen = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    choose_kernel<T><<<static_cast<unsigned>(logits.size(0)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(logits), temperatures.const_data_ptr<float>(), keys.const_data_ptr<int64_t>(), chosen.mutable_data_ptr<int64_t>(), static_cast<int>(logits.size(1)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return chosen;
}

}  // namespace hone::ops::cuda
