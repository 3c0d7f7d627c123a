#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

// One block per token, threads over the pairs of all its heads.
template <class T>
__global__ void rope_kernel(const T* x, const float* cos, const float* sin, T* y, int pairs, int half) {
  const int64_t token = blockIdx.x;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const int64_t place = token * pairs * 2 + i / half * (2 * half) + i % half;
    const float c = cos[token * half + i % half], s = sin[token * half + i % half];
    const float first = to_float(x[place]), second = to_float(x[place + half]);
    y[place] = from_float<T>(first * c - second * s);
    y[place + half] = from_float<T>(second * c + first * s);
  }
}

template <class T>
__global__ void swiglu_kernel(const T* gate, const T* up, T* y, int packs, int64_t gate_stride, int64_t up_stride) {
  constexpr int kPack = Pack<T>::kCount;
  // Blocks are counted in one direction: the others end at 65,535, and rows may be more.
  const unsigned across = (packs + blockDim.x - 1) / blockDim.x;
  const int i = blockIdx.x % across * blockDim.x + threadIdx.x;
  const int64_t row = blockIdx.x / across;
  let_next_begin();
  wait_for_previous();
  if (i >= packs) return;
  auto g = load_pack(gate + row * gate_stride + i * kPack), u = load_pack(up + row * up_stride + i * kPack);
  for (int j = 0; j < kPack; ++j) {
    const float value = to_float(g.values[j]);
    g.values[j] = from_float<T>(to_float(from_float<T>(value / (1.0f + __expf(-value)))) * to_float(u.values[j]));
  }
  store_pack(y + (row * packs + i) * kPack, g);
}

constexpr int kThinWarps = 4;

// One warp per output: its row of the weight streams past, the few rows of x come from the cache.
template <class T, int M>
__global__ void __launch_bounds__(kThinWarps * 32) thin_kernel(const T* x, const T* weight, const T* bias, T* y, int width, int outputs) {
  constexpr int kPack = Pack<T>::kCount, kAhead = 4;
  const int output = blockIdx.x * kThinWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  let_next_begin();
  if (output >= outputs) return;
  const T* row = weight + static_cast<int64_t>(output) * width;
  float sums[M] = {};
  const int packs = width / kPack;
  for (int base = lane; base < packs; base += 32 * kAhead) {
    Pack<T> w[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (base + a * 32 < packs) w[a] = stream_pack(row + (base + a * 32) * kPack);
    if (base == lane) wait_for_previous();  // x and bias are read from here on
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (base + a * 32 >= packs) break;
#pragma unroll
      for (int m = 0; m < M; ++m) {
        auto pack = load_pack(x + static_cast<int64_t>(m) * width + (base + a * 32) * kPack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) sums[m] += to_float(w[a].values[j]) * to_float(pack.values[j]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const float sum = warp_sum(sums[m]);
    if (lane == 0) y[static_cast<int64_t>(m) * outputs + output] = from_float<T>(sum + (bias ? to_float(bias[output]) : 0.0f));
  }
}

bool is_float_type(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

}  // namespace

bool supports_fused(const at::Tensor& x) {
  return x.is_cuda() && is_float_type(x.scalar_type()) && x.numel() > 0 && x.size(-1) % 8 == 0 && !at::GradMode::is_enabled();
}

at::Tensor rope(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin) {
  auto x = input.contiguous();
  auto y = at::empty_like(x);
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    int pairs = static_cast<int>(x.size(1) / 2);
    rope_kernel<T><<<static_cast<unsigned>(x.size(0)), pairs <= 128 ? 128 : 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(x), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), mutable_data<T>(y), pairs, static_cast<int>(cos.size(1)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  auto y = at::empty(gate.sizes(), gate.options());
  with_device_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    int packs = static_cast<int>(gate.size(1) / Pack<T>::kCount);
    const dim3 grid(static_cast<unsigned>((packs + 127) / 128 * gate.size(0)));
    launch_dependent(swiglu_kernel<T>, grid, 128, c10::cuda::getCurrentCUDAStream(), data<T>(gate), data<T>(up), mutable_data<T>(y), packs, gate.stride(0), up.stride(0));
  });
  return y;
}

bool supports_skinny(const at::Tensor& x, const at::Tensor& weight) {
  return supports_fused(x) && x.dim() == 2 && x.size(0) <= 2 && x.scalar_type() == weight.scalar_type() && x.scalar_type() != at::kFloat && x.size(1) % 8 == 0 &&
         weight.is_contiguous();
}

at::Tensor skinny_gemm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  auto x = input.contiguous();
  auto y = at::empty({x.size(0), weight.size(0)}, x.options());
  int width = static_cast<int>(x.size(1)), outputs = static_cast<int>(weight.size(0));
  unsigned blocks = static_cast<unsigned>((outputs + kThinWarps - 1) / kThinWarps);
  auto stream = c10::cuda::getCurrentCUDAStream();
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T* added = bias.defined() ? data<T>(bias) : nullptr;
    auto kernel = x.size(0) == 1 ? thin_kernel<T, 1> : thin_kernel<T, 2>;
    launch_dependent(kernel, blocks, kThinWarps * 32, stream, data<T>(x), data<T>(weight), added, mutable_data<T>(y), width, outputs);
  });
  return y;
}

}  // namespace hone::ops::cuda
