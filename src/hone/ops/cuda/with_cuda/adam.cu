#include "hone/ops/cuda/adam.h"

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kAdamThreads = 256, kAtOnce = 4, kUnits = 2;
constexpr int64_t kChunk = 4 * kUnits * kAtOnce * kAdamThreads;  // what a block takes

struct AdamTensors {
  static constexpr int kMost = 64;
  float* parameter[kMost];
  const void* gradient[kMost];
  float* first[kMost];
  float* second[kMost];
  __nv_bfloat16* published[kMost];  // null: nobody wants the rounded parameter
  int64_t size[kMost];
  int first_block[kMost + 1];  // of each tensor's chunks
  int count;
};

struct AdamNumbers {
  float rate, beta1, beta2, epsilon, decay, step_size, correction2;  // the last two: rate / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  bool decoupled;
};

// Root and quotient within two units in the last place: the exact ones take more instructions than memory gives time for.
__device__ inline float quick_sqrt(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

__device__ inline void update(float& p, float g, float& m, float& v, const AdamNumbers& n) {
  if (n.decoupled) p -= n.rate * n.decay * p;
  else g += n.decay * p;
  m = n.beta1 * m + (1.0f - n.beta1) * g;
  v = n.beta2 * v + (1.0f - n.beta2) * g * g;
  p -= __fdividef(n.step_size * m, quick_sqrt(v) * n.correction2 + n.epsilon);
}

// Four numbers, neighbors of those that the warp's other threads have; nothing is read twice, and the cache is left to others.
struct Four {
  float values[kAtOnce];
};
__device__ inline Four load_four(const float* from) {
  const float4 wide = __ldcs(reinterpret_cast<const float4*>(from));
  return {{wide.x, wide.y, wide.z, wide.w}};
}
__device__ inline Four load_four(const __nv_bfloat16* from) {
  const uint2 wide = __ldcs(reinterpret_cast<const uint2*>(from));
  const auto* values = reinterpret_cast<const __nv_bfloat16*>(&wide);
  return {{to_float(values[0]), to_float(values[1]), to_float(values[2]), to_float(values[3])}};
}
__device__ inline void store_four(float* to, const Four& four) {
  __stcs(reinterpret_cast<float4*>(to), make_float4(four.values[0], four.values[1], four.values[2], four.values[3]));
}
__device__ inline void store_four(__nv_bfloat16* to, const Four& four) {
  uint2 wide;
  auto* values = reinterpret_cast<__nv_bfloat16*>(&wide);
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) values[i] = from_float<__nv_bfloat16>(four.values[i]);
  __stcs(reinterpret_cast<uint2*>(to), wide);
}

__device__ inline int tensor_of_block(const AdamTensors& tensors) {
  int found = 0;
  for (int step = AdamTensors::kMost / 2; step > 0; step /= 2)
    if (found + step < tensors.count && tensors.first_block[found + step] <= static_cast<int>(blockIdx.x)) found += step;
  return found;
}

template <class G>
__global__ void __launch_bounds__(kAdamThreads) adam_kernel(AdamTensors tensors, const float* coefficient, const float* guard, AdamNumbers numbers) {
  if (guard && !isfinite(*guard)) return;
  const int t = tensor_of_block(tensors);
  const int64_t begin = (blockIdx.x - tensors.first_block[t]) * kChunk, count = min(kChunk, tensors.size[t] - begin);
  float *p = tensors.parameter[t] + begin, *m = tensors.first[t] + begin, *v = tensors.second[t] + begin;
  const G* g = static_cast<const G*>(tensors.gradient[t]) + begin;
  __nv_bfloat16* published = tensors.published[t] ? tensors.published[t] + begin : nullptr;
  const float factor = coefficient ? *coefficient : 1.0f;
  const uint64_t addresses = reinterpret_cast<uint64_t>(p) | reinterpret_cast<uint64_t>(m) | reinterpret_cast<uint64_t>(v) | reinterpret_cast<uint64_t>(g) |
                             reinterpret_cast<uint64_t>(published);
  const int64_t wide = addresses % 16 == 0 ? count / kAtOnce : 0;
  for (int64_t i = threadIdx.x; i < wide; i += kUnits * kAdamThreads) {
    Four ps[kUnits], ms[kUnits], vs[kUnits], gs[kUnits];
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      const int64_t place = (i + k * kAdamThreads) * kAtOnce;
      if (i + k * kAdamThreads < wide) ps[k] = load_four(p + place), ms[k] = load_four(m + place), vs[k] = load_four(v + place), gs[k] = load_four(g + place);
    }
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      if (i + k * kAdamThreads >= wide) break;
      const int64_t place = (i + k * kAdamThreads) * kAtOnce;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) update(ps[k].values[j], gs[k].values[j] * factor, ms[k].values[j], vs[k].values[j], numbers);
      store_four(p + place, ps[k]), store_four(m + place, ms[k]), store_four(v + place, vs[k]);
      if (published) store_four(published + place, ps[k]);
    }
  }
  for (int64_t i = wide * kAtOnce + threadIdx.x; i < count; i += kAdamThreads) {
    update(p[i], to_float(g[i]) * factor, m[i], v[i], numbers);
    if (published) published[i] = from_float<__nv_bfloat16>(p[i]);
  }
}

void launch(const AdamTensors& tensors, at::ScalarType type, const AdamScalars& scalars, const AdamNumbers& numbers) {
  const auto blocks = static_cast<unsigned>(tensors.first_block[tensors.count]);
  auto stream = c10::cuda::getCurrentCUDAStream();
  auto place = [](const at::Tensor& scalar) { return scalar.defined() ? scalar.const_data_ptr<float>() : nullptr; };
  const float *coefficient = place(scalars.coefficient), *guard = place(scalars.guard);
  if (type == at::kFloat) adam_kernel<float><<<blocks, kAdamThreads, 0, stream>>>(tensors, coefficient, guard, numbers);
  else adam_kernel<__nv_bfloat16><<<blocks, kAdamThreads, 0, stream>>>(tensors, coefficient, guard, numbers);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

bool serves_adam(const at::Tensor& parameter) { return parameter.is_cuda() && parameter.scalar_type() == at::kFloat && parameter.is_contiguous(); }

void adam_(const TensorList& parameters, const TensorList& gradients, const TensorList& first, const TensorList& second, const TensorList& published,
           const AdamScalars& scalars, const AdamStep& how) {
  const double correction1 = 1 - std::pow(how.beta1, static_cast<double>(how.step)), correction2 = 1 - std::pow(how.beta2, static_cast<double>(how.step));
  const AdamNumbers numbers{static_cast<float>(how.rate),         static_cast<float>(how.beta1),              static_cast<float>(how.beta2),           static_cast<float>(how.epsilon),
                            static_cast<float>(how.weight_decay), static_cast<float>(how.rate / correction1), static_cast<float>(1 / std::sqrt(correction2)), how.decoupled};
  for (auto type : {at::kFloat, at::kBFloat16}) {
    AdamTensors tensors{};
    TensorList kept;  // copies of gradients that are not contiguous live until the launch
    int& count = tensors.count;
    auto flush = [&] {
      if (tensors.first_block[count] > 0) launch(tensors, type, scalars, numbers);
      count = 0;
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
      tensors.published[count] = published[i].defined() ? mutable_data<__nv_bfloat16>(published[i]) : nullptr;
      tensors.size[count] = parameters[i].numel();
      tensors.first_block[count + 1] = tensors.first_block[count] + static_cast<int>((parameters[i].numel() + kChunk - 1) / kChunk);
      if (++count == AdamTensors::kMost) flush();
    }
    flush();
  }
}

}  // namespace hone::ops::cuda
