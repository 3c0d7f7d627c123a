// Orders pairs of a value and an index by value, then by lower index, so that the largest does not depend on the order of
// threads.
#pragma once
#include <cstdint>

namespace hone::ops::cuda {

using ArgmaxKey = unsigned long long;

__device__ inline ArgmaxKey argmax_key(float value, int index) {
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 is 0
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<ArgmaxKey>(ordered) << 32 | ~static_cast<uint32_t>(index);
}
__device__ inline int index_of(ArgmaxKey key) { return static_cast<int>(~static_cast<uint32_t>(key)); }
__device__ inline float value_of(ArgmaxKey key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

}  // namespace hone::ops::cuda
