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
  // A one-dimensional grid: the other dimensions are limited to 65,535, and there may be more rows.
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
        data<T>(x), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), mutable_data<T>(y), pairs,
        static_cast<int>(cos.size(1)));
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
    launch_dependent(swiglu_kernel<T>, grid, 128, c10::cuda::getCurrentCUDAStream(), data<T>(gate), data<T>(up),
                     mutable_data<T>(y), packs, gate.stride(0), up.stride(0));
  });
  return y;
}

}  // namespace hone::ops::cuda
