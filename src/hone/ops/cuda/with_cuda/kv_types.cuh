// Element types of a KV cache: those of the model, and 8-bit floats.
#pragma once
#include <cuda_fp8.h>

#include "hone/ops/attention/kv_cache_dtype.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

// Elements of a cache of 8-bit floats.
template <__nv_fp8_interpretation_t kKind>
struct Float8 {
  uint8_t bits;
  // Values beyond the range saturate.
  __device__ static Float8 rounded(float x) { return {__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kKind)}; }
  __device__ float value() const { return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, kKind))); }
  // Two adjacent ones, the first in the lower half.
  __device__ static uint32_t widened(uint16_t pair) {
    const __half2_raw two = __nv_cvt_fp8x2_to_halfraw2(pair, kKind);
    return static_cast<uint32_t>(two.x) | static_cast<uint32_t>(two.y) << 16;
  }
};
using E4m3 = Float8<__NV_E4M3>;
using E5m2 = Float8<__NV_E5M2>;

// Calls body(C{}) with the type of the cache's elements.
template <class T, class Body>
void with_cache_type(KvCacheDtype code, Body body) {
  if constexpr (sizeof(T) == 2) {
    if (code == KvCacheDtype::fp8_e4m3) return body(E4m3{});
    if (code == KvCacheDtype::fp8_e5m2) return body(E5m2{});
  }
  TORCH_CHECK(code == KvCacheDtype::plain, "a KV cache of integers has no kernel on a GPU");
  body(T{});
}

}  // namespace hone::ops::cuda
