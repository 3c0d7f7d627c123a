#include "hone/ops/cuda/adam.h"

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kAdamThreads = 256, kAdamBlocks = 264, kAtOnce = 8;

struct AdamTensors {
  static constexpr int kMost = 64;
  float* parameter[kMost];
  const void* gradient[kMost];
  float* first[kMost];
  float* second[kMost];
  int64_t count[kMost];
};

struct AdamNumbers {
  float rate, beta1, beta2, epsilon, decay, step_size, correction2;  // the last two: rate / (1 - beta1^t), sqrt(1 - beta2^t)
  bool decoupled;
};

__device__ inline void update(float& p, float g, float& m, float& v, const AdamNumbers& n) {
  if (n.decoupled) p -= n.rate * n.decay * p;
  else g += n.decay * p;
  m = n.beta1 * m + (1.0f - n.beta1) * g;
  v = n.beta2 * v + (1.0f - n.beta2) * g * g;
  p -= n.step_size * m / (sqrtf(v) / n.correction2 + n.epsilon);
}

// Eight numbers in flight of each tensor, as the widest loads.
template <class T>
struct Eight {
  float values[kAtOnce];
  __device__ static Eight load(const T* from) {
    Eight eight;
#pragma unroll
    for (int i = 0; i < kAtOnce / Pack<T>::kCount; ++i) {
      const auto pack = load_pack(from + i * Pack<T>::kCount);
#pragma unroll
      for (int j = 0; j < Pack<T>::kCount; ++j) eight.values[i * Pack<T>::kCount + j] = to_float(pack.values[j]);
    }
    return eight;
  }
  __device__ void store(float* to) const {
#pragma unroll
    for (int i = 0; i < kAtOnce / 4; ++i) *reinterpret_cast<float4*>(to + 4 * i) = *reinterpret_cast<const float4*>(values + 4 * i);
  }
};

template <class G>
__global__ void __launch_bounds__(kAdamThreads) adam_kernel(AdamTensors tensors, const float* coefficient, AdamNumbers numbers) {
  const int t = blockIdx.y;
  float *p = tensors.parameter[t], *m = tensors.first[t], *v = tensors.second[t];
  const G* g = static_cast<const G*>(tensors.gradient[t]);
  const int64_t count = tensors.count[t], step = static_cast<int64_t>(gridDim.x) * blockDim.x, first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float factor = coefficient ? *coefficient : 1.0f;
  const bool aligned = (reinterpret_cast<uint64_t>(p) | reinterpret_cast<uint64_t>(m) | reinterpret_cast<uint64_t>(v) | reinterpret_cast<uint64_t>(g)) % 16 == 0;
  const int64_t wide = aligned ? count / kAtOnce : 0;
  for (int64_t i = first; i < wide; i += step) {
    auto ps = Eight<float>::load(p + i * kAtOnce), ms = Eight<float>::load(m + i * kAtOnce), vs = Eight<float>::load(v + i * kAtOnce);
    const auto gs = Eight<G>::load(g + i * kAtOnce);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) update(ps.values[j], gs.values[j] * factor, ms.values[j], vs.values[j], numbers);
    ps.store(p + i * kAtOnce), ms.store(m + i * kAtOnce), vs.store(v + i * kAtOnce);
  }
  for (int64_t i = wide * kAtOnce + first; i < count; i += step) update(p[i], to_float(g[i]) * factor, m[i], v[i], numbers);
}

void launch(const AdamTensors& tensors, unsigned count, int64_t largest, at::ScalarType type, const float* coefficient, const AdamNumbers& numbers) {
  const auto blocks = static_cast<unsigned>(std::clamp<int64_t>((largest / kAtOnce + kAdamThreads - 1) / kAdamThreads, 1, kAdamBlocks));
  auto stream = c10::cuda::getCurrentCUDAStream();
  if (type == at::kFloat) adam_kernel<float><<<dim3(blocks, count), kAdamThreads, 0, stream>>>(tensors, coefficient, numbers);
  else adam_kernel<__nv_bfloat16><<<dim3(blocks, count), kAdamThreads, 0, stream>>>(tensors, coefficient, numbers);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

bool serves_adam(const at::Tensor& parameter) { return parameter.is_cuda() && parameter.scalar_type() == at::kFloat && parameter.is_contiguous(); }

void adam_(const TensorList& parameters, const TensorList& gradients, const TensorList& first, const TensorList& second, const at::Tensor& coefficient, const AdamStep& how) {
  const double correction1 = 1 - std::pow(how.beta1, static_cast<double>(how.step)), correction2 = 1 - std::pow(how.beta2, static_cast<double>(how.step));
  const AdamNumbers numbers{static_cast<float>(how.rate),         static_cast<float>(how.beta1),              static_cast<float>(how.beta2),           static_cast<float>(how.epsilon),
                            static_cast<float>(how.weight_decay), static_cast<float>(how.rate / correction1), static_cast<float>(std::sqrt(correction2)), how.decoupled};
  const float* factor = coefficient.defined() ? coefficient.const_data_ptr<float>() : nullptr;
  for (auto type : {at::kFloat, at::kBFloat16}) {
    AdamTensors tensors{};
    TensorList kept;  // copies of gradients that are not contiguous live until the launch
    unsigned count = 0;
    int64_t largest = 0;
    auto flush = [&] {
      if (count > 0) launch(tensors, count, largest, type, factor, numbers);
      count = 0, largest = 0;
      kept.clear();
    };
    for (size_t i = 0; i < parameters.size(); ++i) {
      TORCH_CHECK(gradients[i].scalar_type() == at::kFloat || gradients[i].scalar_type() == at::kBFloat16, "gradients of Adam are float32 or bfloat16");
      if (gradients[i].scalar_type() != type) continue;
      kept.push_back(gradients[i].contiguous());
      tensors.parameter[count] = parameters[i].mutable_data_ptr<float>();
      tensors.gradient[count] = kept.back().const_data_ptr();
      tensors.first[count] = first[i].mutable_data_ptr<float>();
      tensors.second[count] = second[i].mutable_data_ptr<float>();
      tensors.count[count] = parameters[i].numel();
      largest = std::max(largest, parameters[i].numel());
      if (++count == AdamTensors::kMost) flush();
    }
    flush();
  }
}

}  // namespace hone::ops::cuda
