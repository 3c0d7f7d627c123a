// The memory layout of 8-bit and 4-bit weights, and the loop over them shared by their kernels.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

// Rows are padded to full blocks. 8 bits: sixteen words are adjacent; their fields, lowest first, hold sixteen inputs each. 4
// bits: a word holds eight consecutive inputs, the first one lowest.
constexpr int64_t kPackedBlock = 128;
constexpr int64_t kPackedWords = 16;
// 4 bits: a weight is code * scale + minimum, both shared by a group of inputs. Sixteen scales are followed by sixteen
// minimums.
constexpr int64_t kPackedGroup = 32;
constexpr int64_t kGroupSpan = 16;
constexpr int64_t kSpanInputs = kGroupSpan * kPackedGroup;
// 8 bits: a weight is (code - kInt8Zero) * scale, with one scale for each output.
constexpr int32_t kInt8Zero = 128;

inline int64_t padded_width(int64_t width) { return (width + kPackedBlock - 1) / kPackedBlock * kPackedBlock; }
inline int64_t padded_groups(int64_t width) { return (width / kPackedGroup + kGroupSpan - 1) / kGroupSpan * kGroupSpan; }

using Words = uint32_t __attribute__((vector_size(64)));

HONE_INLINE Words load_words(const int32_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

// 8-bit weights, less kInt8Zero, as pairs of 16-bit numbers: those of fields 0 and 2 of each word, and of fields 1 and 3.
struct PairedCodes {
  Words even, odd;
};
HONE_INLINE PairedCodes paired_codes(Words codes) {
  using Halves = uint16_t __attribute__((vector_size(64)));
  const auto halves = reinterpret_cast<Halves>(codes);
  return {reinterpret_cast<Words>((halves & 0xFF) - kInt8Zero), reinterpret_cast<Words>((halves >> 8) - kInt8Zero)};
}

// The sums of X rows and W outputs, those of an output next to each other.
template <int64_t X, int64_t W>
HONE_INLINE void put_sums(const F32x16* sums, float* y, int64_t stride) {
#pragma GCC unroll 16
  for (int64_t i = 0; i < X * W; ++i) y[i % X * stride + i / X] = horizontal_sum(sums[i]);
}

// Sixteen groups' values, each repeated four times: a group is four words of 4-bit codes.
HONE_INLINE void spread_groups(F32x16 groups, float* to) {
  store(to, __builtin_shufflevector(groups, groups, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), FullVector{});
  store(to + kVectorWidth, __builtin_shufflevector(groups, groups, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7), FullVector{});
  store(to + 2 * kVectorWidth, __builtin_shufflevector(groups, groups, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11),
        FullVector{});
  store(to + 3 * kVectorWidth,
        __builtin_shufflevector(groups, groups, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15), FullVector{});
}

// Outputs computed at a time for one row of x and for several.
constexpr int64_t kTileOutputs = 4;
#if defined(__aarch64__)
constexpr int64_t kSharedOutputs = 1;
#else
constexpr int64_t kSharedOutputs = 2;
#endif
constexpr int64_t kSharingRows = 4;

// The tiles of outputs from `begin` to `end`: tile<X, W>(first row, first output).
template <int64_t X, int64_t W, class Tile>
HONE_INLINE void for_tiles_of_rows(int64_t row, int64_t begin, int64_t end, Tile tile) {
  int64_t n = begin;
  for (; n + W <= end; n += W) tile.template operator()<X, W>(row, n);
  for (; n < end; ++n) tile.template operator()<X, 1>(row, n);
}

// Those of `count` outputs. All rows pass over as many as stay in the L2 cache, up to `Rows` at a time.
template <int64_t Rows = kSharingRows, class Tile>
HONE_INLINE void for_tiles(const SkinnyShape& shape, Tile tile) {
  constexpr int64_t kCodes = int64_t{1} << 16;
  const int64_t fitting = kCodes / shape.width / 8 * 8, piece = fitting > 8 ? fitting : 8;
  for (int64_t n = 0; n < shape.count; n += piece) {
    const int64_t end = piece < shape.count - n ? n + piece : shape.count;
    int64_t m = 0;
    if constexpr (Rows > kSharingRows)
      for (; m + Rows <= shape.rows; m += Rows) for_tiles_of_rows<Rows, kSharedOutputs>(m, n, end, tile);
    for (; m + kSharingRows <= shape.rows; m += kSharingRows) for_tiles_of_rows<kSharingRows, kSharedOutputs>(m, n, end, tile);
    for (; m < shape.rows; ++m) for_tiles_of_rows<1, kTileOutputs>(m, n, end, tile);
  }
}

}  // namespace hone::ops::cpu
