#include "hone/ops/cuda/adam.h"

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kAdamThreads = 256;
// Elements per thread and iteration: 16 bytes of the parameter, 32 for wide types; and elements per block.
template <class P>
constexpr int kAtOnce = 16 / sizeof(P);
template <class P>
constexpr int kUnits = sizeof(P) == 2 ? 1 : 2;
template <class P>
constexpr int64_t kChunk = int64_t{8} * (kUnits<P>)*(kAtOnce<P>)*kAdamThreads;

struct AdamTensors {
  static constexpr int kMost = 512;  // a launch may have 32 KB of parameters
  void* parameter[kMost];
  const void* gradient[kMost];
  void* first[kMost];
  void* second[kMost];
  __nv_bfloat16* published[kMost];  // null: no rounded copy is written
  int64_t size[kMost];
  int first_block[kMost + 1];  // of each tensor's chunks
  int count;
};

struct AdamNumbers {
  float rate, beta1, beta2, epsilon, decay, step_size, correction2;  // the last two: rate / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  bool decoupled;
};

// Square root and quotient within 2 ulp: the exact ones would make the kernel compute-bound.
__device__ inline float quick_sqrt(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

__device__ inline void update(float& p, float g, float& m, float& v, const AdamNumbers& n) {
  if (n.decoupled)
    p -= n.rate * n.decay * p;
  else
    g += n.decay * p;
  m = n.beta1 * m + (1.0f - n.beta1) * g;
  v = n.beta2 * v + (1.0f - n.beta2) * g * g;
  p -= __fdividef(n.step_size * m, quick_sqrt(v) * n.correction2 + n.epsilon);
}

// Loads and stores in the tensors' own types; returns the parameter before rounding.
template <class P, class G, class M, class V>
__device__ inline float update_one(P& p, const G& g, M& m, V& v, float factor, const AdamNumbers& n) {
  float one = to_float(p), first = to_float(m), second = to_float(v);
  update(one, to_float(g) * factor, first, second, n);
  p = from_float<P>(one), m = from_float<M>(first), v = from_float<V>(second);
  return one;
}

// N elements, coalesced over the warp. Streaming accesses: nothing is read twice.
template <int N, class T>
struct alignas(N * sizeof(T) < 16 ? 8 : 16) AdamPack {
  T values[N];
  using Word = std::conditional_t<(N * sizeof(T) < 16), uint2, uint4>;
  static constexpr int kWords = N * sizeof(T) / sizeof(Word);
  __device__ void load(const T* from) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) reinterpret_cast<Word*>(values)[k] = __ldcs(reinterpret_cast<const Word*>(from) + k);
  }
  __device__ void store(T* to) const {
#pragma unroll
    for (int k = 0; k < kWords; ++k) __stcs(reinterpret_cast<Word*>(to) + k, reinterpret_cast<const Word*>(values)[k]);
  }
};

__device__ inline int tensor_of_block(const AdamTensors& tensors) {
  int found = 0;
  for (int step = AdamTensors::kMost / 2; step > 0; step /= 2)
    if (found + step < tensors.count && tensors.first_block[found + step] <= static_cast<int>(blockIdx.x)) found += step;
  return found;
}

// P: the type of parameters, G: of gradients, M and V: of the moments. All is computed in float32.
template <class P, class G, class M, class V>
__global__ void __launch_bounds__(kAdamThreads)
    adam_kernel(AdamTensors tensors, const float* coefficient, const float* guard, AdamNumbers numbers) {
  constexpr int N = kAtOnce<P>, U = kUnits<P>;
  const float guarded = guard ? *guard : 0.0f;  // read after the first loads are issued
  const int t = tensor_of_block(tensors);
  const int64_t begin = (blockIdx.x - tensors.first_block[t]) * kChunk<P>, count = min(kChunk<P>, tensors.size[t] - begin);
  P* p = static_cast<P*>(tensors.parameter[t]) + begin;
  M* m = static_cast<M*>(tensors.first[t]) + begin;
  V* v = static_cast<V*>(tensors.second[t]) + begin;
  const G* g = static_cast<const G*>(tensors.gradient[t]) + begin;
  __nv_bfloat16* published = tensors.published[t] ? tensors.published[t] + begin : nullptr;
  const float factor = coefficient ? *coefficient : 1.0f;
  const uint64_t addresses = reinterpret_cast<uint64_t>(p) | reinterpret_cast<uint64_t>(m) | reinterpret_cast<uint64_t>(v) |
                             reinterpret_cast<uint64_t>(g) | reinterpret_cast<uint64_t>(published);
  const int64_t wide = addresses % 16 == 0 ? count / N : 0;
  for (int64_t i = threadIdx.x; i < wide; i += U * kAdamThreads) {
    AdamPack<N, P> ps[U];
    AdamPack<N, M> ms[U];
    AdamPack<N, V> vs[U];
    AdamPack<N, G> gs[U];
#pragma unroll
    for (int k = 0; k < U; ++k) {
      const int64_t place = (i + k * kAdamThreads) * N;
      if (i + k * kAdamThreads < wide) ps[k].load(p + place), ms[k].load(m + place), vs[k].load(v + place), gs[k].load(g + place);
    }
    if (!isfinite(guarded)) return;
#pragma unroll
    for (int k = 0; k < U; ++k) {
      if (i + k * kAdamThreads >= wide) break;
      const int64_t place = (i + k * kAdamThreads) * N;
      AdamPack<N, __nv_bfloat16> rounded;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float one = update_one(ps[k].values[j], gs[k].values[j], ms[k].values[j], vs[k].values[j], factor, numbers);
        rounded.values[j] = from_float<__nv_bfloat16>(one);
      }
      ps[k].store(p + place), ms[k].store(m + place), vs[k].store(v + place);
      if (published) rounded.store(published + place);
    }
  }
  if (!isfinite(guarded)) return;
  for (int64_t i = wide * N + threadIdx.x; i < count; i += kAdamThreads) {
    const float one = update_one(p[i], g[i], m[i], v[i], factor, numbers);
    if (published) published[i] = from_float<__nv_bfloat16>(one);
  }
}

// Adds tensors of the same types and launches them a table at a time.
template <class P, class G, class M, class V>
struct AdamLaunches {
  const AdamScalars& scalars;
  const AdamNumbers& numbers;
  AdamTensors tensors{};
  TensorList kept{};  // copies of gradients that are not contiguous live until the launch

  void add(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second,
           const at::Tensor& published) {
    int& count = tensors.count;
    kept.push_back(gradient.contiguous());
    tensors.parameter[count] = parameter.mutable_data_ptr();
    tensors.gradient[count] = kept.back().const_data_ptr();
    tensors.first[count] = first.mutable_data_ptr();
    tensors.second[count] = second.mutable_data_ptr();
    tensors.published[count] = published.defined() ? mutable_data<__nv_bfloat16>(published) : nullptr;
    tensors.size[count] = parameter.numel();
    tensors.first_block[count + 1] =
        tensors.first_block[count] + static_cast<int>((parameter.numel() + kChunk<P> - 1) / kChunk<P>);
    if (++count == AdamTensors::kMost) flush();
  }
  void flush() {
    const auto blocks = static_cast<unsigned>(tensors.first_block[tensors.count]);
    auto place = [](const at::Tensor& scalar) { return scalar.defined() ? scalar.const_data_ptr<float>() : nullptr; };
    if (blocks > 0) {
      adam_kernel<P, G, M, V><<<blocks, kAdamThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(tensors, place(scalars.coefficient),
                                                                                              place(scalars.guard), numbers);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    tensors.count = 0;
    kept.clear();
  }
};

// Float32 parameters, by the types of their moments.
template <class G>
struct FloatAdamLaunches {
  const AdamScalars& scalars;
  const AdamNumbers& numbers;
  AdamLaunches<float, G, float, float> both_wide{scalars, numbers};
  AdamLaunches<float, G, __nv_bfloat16, float> short_first{scalars, numbers};
  AdamLaunches<float, G, float, __nv_bfloat16> short_second{scalars, numbers};
  AdamLaunches<float, G, __nv_bfloat16, __nv_bfloat16> both_short{scalars, numbers};

  template <class Add>
  void add(bool first_is_short, bool second_is_short, Add add_to) {
    if (first_is_short && second_is_short) return add_to(both_short);
    if (first_is_short) return add_to(short_first);
    if (second_is_short) return add_to(short_second);
    add_to(both_wide);
  }
  void flush() { both_wide.flush(), short_first.flush(), short_second.flush(), both_short.flush(); }
};

}  // namespace

bool supports_adam(const at::Tensor& parameter) {
  return parameter.is_cuda() && parameter.is_contiguous() &&
         (parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kBFloat16);
}

void adam_(const TensorList& parameters, const TensorList& gradients, const TensorList& first, const TensorList& second,
           const TensorList& published, const AdamScalars& scalars, const AdamStep& how) {
  const double correction1 = 1 - std::pow(how.beta1, static_cast<double>(how.step)),
               correction2 = 1 - std::pow(how.beta2, static_cast<double>(how.step));
  const AdamNumbers numbers{static_cast<float>(how.rate),
                            static_cast<float>(how.beta1),
                            static_cast<float>(how.beta2),
                            static_cast<float>(how.epsilon),
                            static_cast<float>(how.weight_decay),
                            static_cast<float>(how.rate / correction1),
                            static_cast<float>(1 / std::sqrt(correction2)),
                            how.decoupled};
  FloatAdamLaunches<float> wide{scalars, numbers};
  FloatAdamLaunches<__nv_bfloat16> short_gradients{scalars, numbers};
  AdamLaunches<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16> narrow{scalars, numbers};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto type = parameters[i].scalar_type(), of_gradient = gradients[i].scalar_type();
    auto add = [&](auto& launches) { launches.add(parameters[i], gradients[i], first[i], second[i], published[i]); };
    const bool first_is_short = first[i].scalar_type() == at::kBFloat16,
               second_is_short = second[i].scalar_type() == at::kBFloat16;
    if (type == at::kFloat && of_gradient == at::kFloat)
      wide.add(first_is_short, second_is_short, add);
    else if (type == at::kFloat && of_gradient == at::kBFloat16)
      short_gradients.add(first_is_short, second_is_short, add);
    else if (type == at::kBFloat16 && of_gradient == at::kBFloat16)
      add(narrow);
    else
      TORCH_CHECK(false, "Adam's parameters and gradients are float32 or bfloat16, not ", type, " and ", of_gradient);
  }
  wide.flush(), short_gradients.flush(), narrow.flush();
}

}  // namespace hone::ops::cuda
