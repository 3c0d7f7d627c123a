// L2 norms of queries and keys and their gradients: a warp has the 128 elements of a head.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda::delta {

constexpr int kHeadDim = 128, kHeadThreads = 256, kLaneElements = kHeadDim / 32;
constexpr float kNormEps = 1e-6f;

template <class T>
struct alignas(kLaneElements * sizeof(T)) LaneElements {
  T values[kLaneElements];
};
template <class T>
__device__ inline float4 load_lane(const T* head) {
  const auto own = *reinterpret_cast<const LaneElements<T>*>(head + threadIdx.x % 32 * kLaneElements);
  return make_float4(to_float(own.values[0]), to_float(own.values[1]), to_float(own.values[2]), to_float(own.values[3]));
}
template <class T>
__device__ inline void store_lane(T* head, const float4& own) {
  LaneElements<T> rounded{from_float<T>(own.x), from_float<T>(own.y), from_float<T>(own.z), from_float<T>(own.w)};
  *reinterpret_cast<LaneElements<T>*>(head + threadIdx.x % 32 * kLaneElements) = rounded;
}
__device__ inline float dot(const float4& a, const float4& b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ inline float4 scaled(const float4& a, float by) { return make_float4(a.x * by, a.y * by, a.z * by, a.w * by); }

// Queries, then keys: rows of T heads, each 128 apart, in a row of `stride`; y has them contiguous, all queries first.
template <class T>
__global__ void __launch_bounds__(kHeadThreads)
    normalize_kernel(const T* q, const T* k, int64_t q_stride, int64_t k_stride, T* q_to, T* k_to, int64_t rows, int heads) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  if (number >= rows * heads) return;
  const int64_t row = number / heads, head = number % heads * kHeadDim;
  const float4 query = load_lane(q + row * q_stride + head), key = load_lane(k + row * k_stride + head);
  store_lane(q_to + number * kHeadDim, scaled(query, rsqrtf(warp_sum(dot(query, query)) + kNormEps)));
  store_lane(k_to + number * kHeadDim, scaled(key, rsqrtf(warp_sum(dot(key, key)) + kNormEps)));
}

// dy are the gradients of normalized heads, `shared` adjacent ones for each of x.
template <class T>
__global__ void __launch_bounds__(kHeadThreads)
    normalize_gradient_kernel(const T* q, const T* k, int64_t q_stride, int64_t k_stride, const T* dq_in, const T* dk_in, T* dq,
                              T* dk, int64_t rows, int heads, int shared) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  if (number >= rows * heads) return;
  const int64_t row = number / heads, head = number % heads * kHeadDim;
  auto gradient = [&](const float4& x, const T* dy, T* to) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = 0; i < shared; ++i) {
      const float4 one = load_lane(dy + (number * shared + i) * kHeadDim);
      sum = make_float4(sum.x + one.x, sum.y + one.y, sum.z + one.z, sum.w + one.w);
    }
    const float inverse = rsqrtf(warp_sum(dot(x, x)) + kNormEps);
    const float along = warp_sum(dot(x, sum)) * inverse * inverse;
    store_lane(to + number * kHeadDim, make_float4(inverse * (sum.x - x.x * along), inverse * (sum.y - x.y * along),
                                                   inverse * (sum.z - x.z * along), inverse * (sum.w - x.w * along)));
  };
  gradient(load_lane(q + row * q_stride + head), dq_in, dq);
  gradient(load_lane(k + row * k_stride + head), dk_in, dk);
}

}  // namespace hone::ops::cuda::delta
