// Sixteen floats at a time, in the compiler's vector types: one source for AVX-512, AVX2, SSE and NEON. Everything here is
// inlined into kernels marked HONE_CPU_KERNEL, which are compiled once per instruction set and chosen when the program starts.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define HONE_CPU_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HONE_CPU_KERNEL
#endif
#define HONE_INLINE __attribute__((always_inline)) inline

namespace hone::ops::cpu {

using F32x16 = float __attribute__((vector_size(64)));
using I32x16 = int32_t __attribute__((vector_size(64)));
using LaneShort = uint16_t __attribute__((vector_size(32)));
constexpr int64_t kVectorWidth = 16;

// How much of a vector is inside the row.
struct FullVector {
  static constexpr int64_t count = kVectorWidth;
};
struct VectorTail {
  int64_t count;
};

HONE_INLINE F32x16 splat(float value) {
  return F32x16{value, value, value, value, value, value, value, value, value, value, value, value, value, value, value, value};
}

HONE_INLINE F32x16 widen(LaneShort bits) { return reinterpret_cast<F32x16>(__builtin_convertvector(bits, I32x16) << 16); }
// Through integers, since GCC 12 converts a vector of halves one by one: rebiases the exponent; subnormal, infinite and NaN
// halves are handled separately. Masks are shifted signs: GCC 12 compares one by one where a vector takes several registers.
HONE_INLINE F32x16 widen_half(LaneShort bits) {
  const I32x16 wide = __builtin_convertvector(bits, I32x16), magnitude = wide & 0x7FFF, sign = (wide & 0x8000) << 16;
  const I32x16 subnormal = (magnitude - 0x0400) >> 31, beyond = (0x7BFF - magnitude) >> 31;
  const F32x16 below = reinterpret_cast<F32x16>((magnitude << 13) + (113 << 23)) - 6.103515625e-05f;
  const I32x16 value = ((magnitude << 13) + (112 << 23)) | (beyond & (0xFF << 23));
  return reinterpret_cast<F32x16>((value & ~subnormal) | (reinterpret_cast<I32x16>(below) & subnormal) | sign);
}
// To nearest, ties to even; a NaN stays one.
#if defined(__aarch64__)  // a quarter of the time of what GCC makes of sixteen floats
HONE_INLINE uint16x4_t narrow_four(float32x4_t value) {
  const uint32x4_t bits = vreinterpretq_u32_f32(value), odd = vtstq_u32(bits, vdupq_n_u32(0x10000));  // all ones where it is odd
  const uint32x4_t nearest = vsubq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
  return vshrn_n_u32(vbslq_u32(vceqq_f32(value, value), nearest, vdupq_n_u32(0x7FC00000)), 16);
}
HONE_INLINE LaneShort narrow(F32x16 value) {
  float32x4_t fours[4];
  std::memcpy(fours, &value, sizeof value);
  const uint16x8_t halves[2] = {vcombine_u16(narrow_four(fours[0]), narrow_four(fours[1])),
                                vcombine_u16(narrow_four(fours[2]), narrow_four(fours[3]))};
  LaneShort bits;
  std::memcpy(&bits, halves, sizeof bits);
  return bits;
}
#else
HONE_INLINE LaneShort narrow(F32x16 value) {
  auto bits = reinterpret_cast<I32x16>(value);
  const I32x16 nan = (0x7F800000 - (bits & 0x7FFFFFFF)) >> 31, rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return __builtin_convertvector((rounded & ~nan) | (nan & 0x7FC0), LaneShort);
}
#endif

template <class Extent>
HONE_INLINE F32x16 load(const float* from, Extent extent) {
  F32x16 lane{};
  std::memcpy(&lane, from, static_cast<size_t>(extent.count) * sizeof(float));
  return lane;
}
template <class Extent>
HONE_INLINE F32x16 load(const c10::BFloat16* from, Extent extent) {
  LaneShort bits{};
  std::memcpy(&bits, from, static_cast<size_t>(extent.count) * sizeof(uint16_t));
  return widen(bits);
}
template <class Extent>
HONE_INLINE F32x16 load(const c10::Half* from, Extent extent) {
  LaneShort bits{};
  std::memcpy(&bits, from, static_cast<size_t>(extent.count) * sizeof(uint16_t));
  return widen_half(bits);
}
template <class Extent>
HONE_INLINE void store(float* to, F32x16 lane, Extent extent) {
  std::memcpy(to, &lane, static_cast<size_t>(extent.count) * sizeof(float));
}
template <class Extent>
HONE_INLINE void store(c10::BFloat16* to, F32x16 lane, Extent extent) {
  auto bits = narrow(lane);
  std::memcpy(to, &bits, static_cast<size_t>(extent.count) * sizeof(uint16_t));
}
template <class Extent>
HONE_INLINE void store(c10::Half* to, F32x16 lane, Extent extent) {
  for (int64_t i = 0; i < extent.count; ++i) to[i] = lane[i];
}

// What a value becomes when stored as T: intermediate results round where a composition of tensors would.
template <class T>
HONE_INLINE F32x16 rounded(F32x16 lane) {
  T buffer[kVectorWidth];
  store(buffer, lane, FullVector{});
  return load(buffer, FullVector{});
}
template <>
HONE_INLINE F32x16 rounded<float>(F32x16 lane) {
  return lane;
}
template <>
HONE_INLINE F32x16 rounded<c10::BFloat16>(F32x16 lane) {
  return widen(narrow(lane));
}

HONE_INLINE float sum(F32x16 lane) {
  float halves[kVectorWidth];
  std::memcpy(halves, &lane, sizeof lane);
  for (int64_t width = kVectorWidth / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) halves[i] += halves[i + width];
  return halves[0];
}
// Like sum(), in the same order, but without going through memory: for kernels with one of these per output.
HONE_INLINE float horizontal_sum(F32x16 lane) {
  using Eight = float __attribute__((vector_size(32)));
  using Four = float __attribute__((vector_size(16)));
  const Eight eight = __builtin_shufflevector(lane, lane, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(lane, lane, 8, 9, 10, 11, 12, 13, 14, 15);
  const Four four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
HONE_INLINE F32x16 max(F32x16 a, F32x16 b) { return a > b ? a : b; }
HONE_INLINE F32x16 min(F32x16 a, F32x16 b) { return a < b ? a : b; }
HONE_INLINE float max(F32x16 lane) {
  lane = max(lane, __builtin_shufflevector(lane, lane, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  lane = max(lane, __builtin_shufflevector(lane, lane, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  lane = max(lane, __builtin_shufflevector(lane, lane, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return lane[0] > lane[1] ? lane[0] : lane[1];
}
// To the nearest integers below 2^22, ties to even.
HONE_INLINE F32x16 to_integers(F32x16 x) {
  const F32x16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds
  return (x + magic) - magic;
}

// Within two units in the last place of expf; 0 below the smallest normal number, infinity above the largest.
HONE_INLINE F32x16 exp(F32x16 x) {
  const F32x16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  auto clamped = min(max(x, splat(-87.33654f)), splat(88.72283f));
  F32x16 n = (clamped * 1.44269504f + magic) - magic;
  F32x16 r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  F32x16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  auto exponent = __builtin_convertvector(n, I32x16);
  // 2^128 does not fit one exponent, so scale in two steps.
  auto half = exponent >> 1;
  auto low = reinterpret_cast<F32x16>((half + 127) << 23), high = reinterpret_cast<F32x16>((exponent - half + 127) << 23);
  p = p * low * high;
  p = x < splat(-87.33654f) ? F32x16{} : p;
  p = x > splat(88.72283f) ? splat(__builtin_inff()) : p;
  return x != x ? x : p;
}

// body(i, extent) for every vector of a row; only the last one may be partial.
template <class Body>
HONE_INLINE void for_each_vector(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + kVectorWidth <= width; i += kVectorWidth) body(i, FullVector{});
  if (i < width) body(i, VectorTail{width - i});
}

}  // namespace hone::ops::cpu

// A lambda inlined into its kernel, so that it is compiled for the kernel's instruction set.
#define HONE_VECTOR_LOOP(...) \
  [&](int64_t i, auto extent) __attribute__((always_inline)) { __VA_ARGS__; }
