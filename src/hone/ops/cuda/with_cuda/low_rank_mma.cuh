// A low-rank update on the tensor cores, accumulated in float32. A warp processes eight rows and 64 columns at a time, full cache
// lines; a thread has eight adjacent columns of two rows. The transposed product is computed: its rows are columns of y, permuted
// so that a thread's columns are adjacent.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

constexpr int kStripRows = 8, kStripColumns = 64;

__device__ inline void mma(float (&sums)[4], const uint32_t (&factor)[2], uint32_t ranks, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(factor[0]), "r"(factor[1]), "r"(ranks));
}
__device__ inline void mma(float (&sums)[4], const uint32_t (&factor)[2], uint32_t ranks, __half) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(factor[0]), "r"(factor[1]), "r"(ranks));
}

// A thread's position in the warp's tile: rows `row` and `row + 1`, columns from `column`.
struct StripPlace {
  int row, column;
};
__device__ inline StripPlace strip_place() {
  const int lane = threadIdx.x % 32;
  return {lane % 4 * 2, lane / 4 * 8};
}

// A thread's fragment of a factor for 64 columns: B [w, r], or A [r, w] if kAcross. Columns from `width` on are zero.
template <class T, int kEights>
struct StripFactor {
  uint32_t values[kEights > 0 ? kEights : 1][4][2];
};
template <class T, int kEights, bool kAcross>
__device__ inline StripFactor<T, kEights> load_factor(const T* factor, int first_column, int width) {
  StripFactor<T, kEights> found;
  const int column = first_column + threadIdx.x % 32 / 4 * 8, rank = threadIdx.x % 4 * 2;
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight) {
    const int r = 8 * eight + rank;
    if constexpr (kAcross) {
      uint4 first{}, second{};  // eight columns of two ranks
      if (column < width) {
        first = *reinterpret_cast<const uint4*>(factor + static_cast<int64_t>(r) * width + column);
        second = *reinterpret_cast<const uint4*>(factor + static_cast<int64_t>(r + 1) * width + column);
      }
      const uint32_t upper[4] = {first.x, first.y, first.z, first.w}, lower[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        found.values[eight][j][0] = __byte_perm(upper[j], lower[j], 0x5410);
        found.values[eight][j][1] = __byte_perm(upper[j], lower[j], 0x7632);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        found.values[eight][j / 2][j % 2] =
            column < width ? *reinterpret_cast<const uint32_t*>(factor + static_cast<int64_t>(column + j) * 8 * kEights + r) : 0;
    }
  }
  return found;
}

// A thread's fragment of p for eight rows from `first`; rows from `rows` on are zero.
template <int kEights>
struct StripRanks {
  uint32_t values[kEights > 0 ? kEights : 1];
};
template <class T, int kEights>
__device__ inline StripRanks<kEights> load_ranks(const T* p, int64_t stride, int first, int rows) {
  StripRanks<kEights> found;
  const int row = first + threadIdx.x % 32 / 4, rank = threadIdx.x % 4 * 2;
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight)
    found.values[eight] = row < rows ? *reinterpret_cast<const uint32_t*>(p + row * stride + 8 * eight + rank) : 0;
  return found;
}

// upper and lower (eight columns of two rows) += their part of p times the factor.
template <class T, int kEights>
__device__ inline void add_update(PackFloats<T>& upper, PackFloats<T>& lower, const StripRanks<kEights>& ranks,
                                  const StripFactor<T, kEights>& factor) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float sums[4] = {upper.values[2 * j], lower.values[2 * j], upper.values[2 * j + 1], lower.values[2 * j + 1]};
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) mma(sums, factor.values[eight][j], ranks.values[eight], T{});
    upper.values[2 * j] = sums[0], lower.values[2 * j] = sums[1], upper.values[2 * j + 1] = sums[2],
                     lower.values[2 * j + 1] = sums[3];
  }
}

}  // namespace hone::ops::cuda
