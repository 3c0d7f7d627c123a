// 16-byte vector loads and stores to and from float registers, for every dtype of the kernels.
#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "hone/device/tensor.h"

namespace hone::ops::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Two numbers rounded by one instruction, the first in the lower half.
template <class T>
__device__ inline uint32_t rounded_pair(float first, float second);
template <>
__device__ inline uint32_t rounded_pair<__nv_bfloat16>(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ inline uint32_t rounded_pair<__half>(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// 16 bytes of elements.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

template <class T>
__device__ inline Pack<T> load_pack(const T* from) {
  Pack<T> pack;
  *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(from);
  return pack;
}
// Streaming load: the data is not read again.
template <class T>
__device__ inline Pack<T> stream_pack(const T* from) {
  Pack<T> pack;
  *reinterpret_cast<uint4*>(&pack) = __ldcs(reinterpret_cast<const uint4*>(from));
  return pack;
}
template <class T>
__device__ inline void store_pack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&pack);
}

// Floats of a pack, and a pack of floats.
template <class T>
struct PackFloats {
  float values[Pack<T>::kCount];
};
template <class T>
__device__ inline PackFloats<T> floats_of(const Pack<T>& pack) {
  PackFloats<T> found;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) found.values[j] = to_float(pack.values[j]);
  return found;
}
// A bfloat16 is the upper half of a float: one instruction each.
template <>
__device__ inline PackFloats<__nv_bfloat16> floats_of(const Pack<__nv_bfloat16>& pack) {
  PackFloats<__nv_bfloat16> found;
  const auto* pairs = reinterpret_cast<const uint32_t*>(&pack);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    found.values[2 * j] = __uint_as_float(pairs[j] << 16), found.values[2 * j + 1] = __uint_as_float(pairs[j] & 0xffff0000u);
  return found;
}
template <class T>
__device__ inline Pack<T> rounded_pack(const PackFloats<T>& from) {
  Pack<T> pack;
  if constexpr (sizeof(T) == 2) {
    auto* pairs = reinterpret_cast<uint32_t*>(&pack);
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = rounded_pair<T>(from.values[2 * j], from.values[2 * j + 1]);
  } else {
#pragma unroll
    for (int j = 0; j < Pack<T>::kCount; ++j) pack.values[j] = from.values[j];
  }
  return pack;
}

// 1 / x within 2 ulp.
__device__ inline float quick_reciprocal(float x) {
  float found;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
  return found;
}

__device__ inline float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
template <class Value>
__device__ inline Value warp_max(Value value) {
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Rows per block of a kernel that iterates over rows: enough blocks to fill the device, otherwise enough rows to amortize the
// block's setup.
inline int tile_for(int rows, int column_blocks, int most, int least) {
  constexpr int kBlocksWanted = 132 * 8;
  int tile = most;
  while (tile > least && (rows + tile - 1) / tile * column_blocks < kBlocksWanted) tile /= 2;
  return tile;
}

// Calls body(T{}) with the device's type for `dtype`.
template <class Body>
void with_device_type(at::ScalarType dtype, Body body) {
  switch (dtype) {
    case at::kFloat:
      return body(float{});
    case at::kHalf:
      return body(__half{});
    case at::kBFloat16:
      return body(__nv_bfloat16{});
    default:
      TORCH_CHECK(false, "a floating type of the CUDA kernels, not ", dtype);
  }
}
template <class T>
const T* data(const at::Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}
template <class T>
T* mutable_data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

}  // namespace hone::ops::cuda
