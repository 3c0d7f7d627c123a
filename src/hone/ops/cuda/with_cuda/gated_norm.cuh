// RMSNorm of each head of 128 elements times SiLU of its gate, and its gradients: a warp has a head.
#pragma once
#include "hone/ops/cuda/with_cuda/delta_heads.cuh"

namespace hone::ops::cuda::delta {

template <class T>
struct GatedNorm {
  const T *x, *z, *weight;  // x [rows, heads * 128]; rows of z are z_stride apart
  int64_t z_stride, rows;
  int heads;
  float eps;
};

__device__ inline float4 times(const float4& a, const float4& b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ inline float4 sigmoid_of(const float4& x) {
  auto one = [](float value) { return quick_reciprocal(1.0f + __expf(-value)); };
  return make_float4(one(x.x), one(x.y), one(x.z), one(x.w));
}

template <class T>
__global__ void __launch_bounds__(kHeadThreads) gated_norm_kernel(GatedNorm<T> a, T* y) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  if (number >= a.rows * a.heads) return;
  const float4 x = load_lane(a.x + number * kHeadDim), z = load_lane(a.z + number / a.heads * a.z_stride + number % a.heads * kHeadDim);
  const float inverse = rsqrtf(warp_sum(dot(x, x)) / kHeadDim + a.eps);
  store_lane(y + number * kHeadDim, times(times(scaled(x, inverse), load_lane(a.weight)), times(z, sigmoid_of(z))));
}

// dweight: null, or a row of 128 sums per warp.
template <class T>
__global__ void __launch_bounds__(kHeadThreads) gated_norm_gradient_kernel(GatedNorm<T> a, const T* dy, T* dx, T* dz, float* dweight) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kHeadThreads / 32),
                first = static_cast<int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  float4 sum = make_float4(0, 0, 0, 0);
  const float4 weight = load_lane(a.weight);
  for (int64_t number = first; number < a.rows * a.heads; number += warps) {
    const float4 x = load_lane(a.x + number * kHeadDim), z = load_lane(a.z + number / a.heads * a.z_stride + number % a.heads * kHeadDim),
                 grad = load_lane(dy + number * kHeadDim);
    const float inverse = rsqrtf(warp_sum(dot(x, x)) / kHeadDim + a.eps);
    const float4 normed = scaled(x, inverse), sigmoid = sigmoid_of(z), through = times(grad, times(z, sigmoid)),
                 inner = times(through, weight);
    const float mean = warp_sum(dot(inner, normed)) / kHeadDim;
    store_lane(dx + number * kHeadDim, make_float4(inverse * (inner.x - normed.x * mean), inverse * (inner.y - normed.y * mean),
                                                   inverse * (inner.z - normed.z * mean), inverse * (inner.w - normed.w * mean)));
    auto slope = [](float value, float s) { return s * (1.0f + value * (1.0f - s)); };
    store_lane(dz + number * kHeadDim,
               times(times(grad, times(normed, weight)),
                     make_float4(slope(z.x, sigmoid.x), slope(z.y, sigmoid.y), slope(z.z, sigmoid.z), slope(z.w, sigmoid.w))));
    const float4 own = times(through, normed);
    sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
  }
  if (dweight) reinterpret_cast<float4*>(dweight + first * kHeadDim)[threadIdx.x % 32] = sum;
}

}  // namespace hone::ops::cuda::delta
