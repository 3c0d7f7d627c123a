// An update of few ranks on the tensor cores, in float32 beside the numbers that it is added to. A warp has sixteen rows and 32 columns at a time; a
// thread has eight neighboring columns of rows g and g + 8, sixteen bytes each: the columns of the four products are dealt out so.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

constexpr int kStripRows = 16, kStripColumns = 32;

__device__ inline void mma(float (&sums)[4], uint32_t top, uint32_t bottom, uint32_t factor, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(top), "r"(bottom), "r"(factor));
}
__device__ inline void mma(float (&sums)[4], uint32_t top, uint32_t bottom, uint32_t factor, __half) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(top), "r"(bottom), "r"(factor));
}

// Where a thread stands in its warp's part: rows `row` and `row + 8`, columns from `column`.
struct StripPlace {
  int row, column;
};
__device__ inline StripPlace strip_place() {
  const int lane = threadIdx.x % 32;
  return {lane / 4, lane % 4 * 8};
}

// A thread's part of a factor for 32 columns: B [w, r], or A [r, w] where kAcross. Columns from `width` on count nothing.
template <class T, int kEights>
struct StripFactor {
  uint32_t values[kEights > 0 ? kEights : 1][4];
};
template <class T, int kEights, bool kAcross>
__device__ inline StripFactor<T, kEights> load_factor(const T* factor, int first_column, int width) {
  StripFactor<T, kEights> found;
  const int group = threadIdx.x % 32 / 4, rank = threadIdx.x % 4 * 2;
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = first_column + group / 2 * 8 + 2 * j + group % 2, r = 8 * eight + rank;
      uint32_t both = 0;
      if (column < width) {
        if constexpr (kAcross) {
          const auto* from = reinterpret_cast<const uint16_t*>(factor);
          both = from[static_cast<int64_t>(r) * width + column] | static_cast<uint32_t>(from[static_cast<int64_t>(r + 1) * width + column]) << 16;
        } else {
          both = *reinterpret_cast<const uint32_t*>(factor + static_cast<int64_t>(column) * 8 * kEights + r);
        }
      }
      found.values[eight][j] = both;
    }
  return found;
}

// A thread's part of p for sixteen rows from `first`; rows from `rows` on count nothing.
template <int kEights>
struct StripRanks {
  uint32_t top[kEights > 0 ? kEights : 1], bottom[kEights > 0 ? kEights : 1];
};
template <class T, int kEights>
__device__ inline StripRanks<kEights> load_ranks(const T* p, int64_t stride, int first, int rows) {
  StripRanks<kEights> found;
  const int row = first + threadIdx.x % 32 / 4, rank = threadIdx.x % 4 * 2;
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight) {
    found.top[eight] = row < rows ? *reinterpret_cast<const uint32_t*>(p + row * stride + 8 * eight + rank) : 0;
    found.bottom[eight] = row + 8 < rows ? *reinterpret_cast<const uint32_t*>(p + (row + 8) * stride + 8 * eight + rank) : 0;
  }
  return found;
}

// upper and lower, eight columns of two rows, += their part of p times the factor.
template <class T, int kEights>
__device__ inline void add_update(PackFloats<T>& upper, PackFloats<T>& lower, const StripRanks<kEights>& ranks, const StripFactor<T, kEights>& factor) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float sums[4] = {upper.values[2 * j], upper.values[2 * j + 1], lower.values[2 * j], lower.values[2 * j + 1]};
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) mma(sums, ranks.top[eight], ranks.bottom[eight], factor.values[eight][j], T{});
    upper.values[2 * j] = sums[0], upper.values[2 * j + 1] = sums[1], lower.values[2 * j] = sums[2], lower.values[2 * j + 1] = sums[3];
  }
}

}  // namespace hone::ops::cuda
