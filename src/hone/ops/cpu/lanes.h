// Sixteen floats at a time, in the compiler's vector types: one source for AVX-512, AVX2, SSE and NEON. Everything here is inlined into
// kernels marked HONE_CPU_KERNEL, which are compiled once per instruction set and chosen when the program starts.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define HONE_CPU_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HONE_CPU_KERNEL
#endif
#define HONE_INLINE __attribute__((always_inline)) inline

namespace hone::ops::cpu {

using Lane = float __attribute__((vector_size(64)));
using LaneInt = int32_t __attribute__((vector_size(64)));
using LaneShort = uint16_t __attribute__((vector_size(32)));
constexpr int64_t kLane = 16;

// How much of a lane is inside the row.
struct Whole {
  static constexpr int64_t count = kLane;
};
struct Part {
  int64_t count;
};

HONE_INLINE Lane splat(float value) { return Lane{} + value; }

HONE_INLINE Lane widen(LaneShort bits) {
  return reinterpret_cast<Lane>(__builtin_convertvector(bits, LaneInt) << 16);
}
// By integers, since GCC 12 converts a vector of halves one by one: the exponent counts from elsewhere, and what is below the smallest
// normal half or beyond the largest stands apart.
HONE_INLINE Lane widen_half(LaneShort bits) {
  const LaneInt wide = __builtin_convertvector(bits, LaneInt), magnitude = (wide & 0x7FFF) << 13, sign = (wide & 0x8000) << 16;
  const Lane below = reinterpret_cast<Lane>(magnitude + (113 << 23)) - 6.103515625e-05f;
  const LaneInt beyond = magnitude + (224 << 23);
  LaneInt value = magnitude + (112 << 23);
  value = magnitude < (1 << 23) ? reinterpret_cast<LaneInt>(below) : value;
  value = magnitude >= (31 << 23) ? beyond : value;
  return reinterpret_cast<Lane>(value | sign);
}
// To nearest, ties to even; a NaN stays one.
HONE_INLINE LaneShort narrow(Lane value) {
  auto bits = reinterpret_cast<LaneInt>(value);
  auto rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return __builtin_convertvector(value != value ? LaneInt{} + 0x7FC0 : rounded, LaneShort);
}

template <class Extent>
HONE_INLINE Lane load(const float* from, Extent extent) {
  Lane lane{};
  std::memcpy(&lane, from, static_cast<size_t>(extent.count) * sizeof(float));
  return lane;
}
template <class Extent>
HONE_INLINE Lane load(const c10::BFloat16* from, Extent extent) {
  LaneShort bits{};
  std::memcpy(&bits, from, static_cast<size_t>(extent.count) * sizeof(uint16_t));
  return widen(bits);
}
template <class Extent>
HONE_INLINE Lane load(const c10::Half* from, Extent extent) {
  LaneShort bits{};
  std::memcpy(&bits, from, static_cast<size_t>(extent.count) * sizeof(uint16_t));
  return widen_half(bits);
}
template <class Extent>
HONE_INLINE void store(float* to, Lane lane, Extent extent) {
  std::memcpy(to, &lane, static_cast<size_t>(extent.count) * sizeof(float));
}
template <class Extent>
HONE_INLINE void store(c10::BFloat16* to, Lane lane, Extent extent) {
  auto bits = narrow(lane);
  std::memcpy(to, &bits, static_cast<size_t>(extent.count) * sizeof(uint16_t));
}
template <class Extent>
HONE_INLINE void store(c10::Half* to, Lane lane, Extent extent) {
  for (int64_t i = 0; i < extent.count; ++i) to[i] = lane[i];
}

// What a value becomes when stored as T: intermediate results round where a composition of tensors would.
template <class T>
HONE_INLINE Lane rounded(Lane lane) {
  T buffer[kLane];
  store(buffer, lane, Whole{});
  return load(buffer, Whole{});
}
template <>
HONE_INLINE Lane rounded<float>(Lane lane) { return lane; }
template <>
HONE_INLINE Lane rounded<c10::BFloat16>(Lane lane) { return widen(narrow(lane)); }

HONE_INLINE float sum(Lane lane) {
  float halves[kLane];
  std::memcpy(halves, &lane, sizeof lane);
  for (int64_t width = kLane / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) halves[i] += halves[i + width];
  return halves[0];
}
// As sum(), in the same order, but without a way through memory: for kernels with one of these per output.
HONE_INLINE float folded(Lane lane) {
  using Eight = float __attribute__((vector_size(32)));
  using Four = float __attribute__((vector_size(16)));
  const Eight eight = __builtin_shufflevector(lane, lane, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(lane, lane, 8, 9, 10, 11, 12, 13, 14, 15);
  const Four four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
HONE_INLINE Lane max(Lane a, Lane b) { return a > b ? a : b; }
HONE_INLINE Lane min(Lane a, Lane b) { return a < b ? a : b; }
HONE_INLINE float max(Lane lane) {
  float largest = lane[0];
  for (int64_t i = 1; i < kLane; ++i) largest = largest > lane[i] ? largest : lane[i];
  return largest;
}

// Within two units in the last place of expf; 0 below the smallest normal number, infinity above the largest.
HONE_INLINE Lane exp(Lane x) {
  const Lane magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  auto clamped = min(max(x, splat(-87.33654f)), splat(88.72283f));
  Lane n = (clamped * 1.44269504f + magic) - magic;
  Lane r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  Lane p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  auto exponent = __builtin_convertvector(n, LaneInt);
  // 2^128 does not fit one exponent, so scale in two steps.
  auto half = exponent >> 1;
  auto low = reinterpret_cast<Lane>((half + 127) << 23), high = reinterpret_cast<Lane>((exponent - half + 127) << 23);
  p = p * low * high;
  p = x < splat(-87.33654f) ? Lane{} : p;
  p = x > splat(88.72283f) ? splat(__builtin_inff()) : p;
  return x != x ? x : p;
}

// body(i, extent) for every lane of a row; only the last one may be a part.
template <class Body>
HONE_INLINE void for_lanes(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + kLane <= width; i += kLane) body(i, Whole{});
  if (i < width) body(i, Part{width - i});
}

}  // namespace hone::ops::cpu

// A lambda that is inlined into its kernel, so that it is compiled for the kernel's instruction set.
#define HONE_LANES(...) [&](int64_t i, auto extent) __attribute__((always_inline)) { __VA_ARGS__; }
