#include "hone/ops/cpu/packed_kernels.h"

#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

using Words = uint32_t __attribute__((vector_size(64)));

// Outputs computed at a time for one row of x and for several.
#if defined(__aarch64__)
constexpr int64_t kOutputs = 2, kSharedOutputs = 1;
#else
constexpr int64_t kOutputs = 4, kSharedOutputs = 2;
#endif
constexpr int64_t kSharingRows = 4;

HONE_INLINE Words load_words(const int32_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

// Sixteen codes as 1 + code / 2^Bits.
template <int Bits, int Field>
HONE_INLINE Lane field(Words words) {
  constexpr int kFirst = 23 - Bits, kUp = kFirst - Field * Bits;
  const Words moved = kUp >= 0 ? words << (kUp >= 0 ? kUp : 0) : words >> (kUp < 0 ? -kUp : 0);
  return reinterpret_cast<Lane>((moved & (((1u << Bits) - 1) << kFirst)) | 0x3F800000u);
}

// Sixteen groups of an output: the factor of a field and what is added to their product.
struct GroupScales {
  Lane factor, base;
};
HONE_INLINE GroupScales load_scales(const c10::BFloat16* from) {
  const Lane factor = load(from, Whole{}) * 16.0f;
  return {factor, load(from + kGroupSpan, Whole{}) - factor};
}

template <int64_t X, int64_t W>
HONE_INLINE void put(const Lane (&sums)[X][W], float* y, int64_t y_stride) {
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) y[m * y_stride + n] = folded(sums[m][n]);
}

// As small_outputs' tile: the order of a sum depends on the width alone, and the next outputs are asked of memory on the way.
template <int64_t X, int64_t W>
HONE_INLINE void int8_tile(const float* x, const float* x_sums, const int32_t* codes, float* y, const SmallShape& shape) {
  Lane sums[X][W] = {};
  const int64_t words = shape.width / 4, groups = padded_groups(shape.width);
  for (int64_t at = 0; at < words; at += kPackedWords) {
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(codes + (n + W) * words + at);
      const Words some = load_words(codes + n * words + at);
      const Lane w[4] = {field<8, 0>(some), field<8, 1>(some), field<8, 2>(some), field<8, 3>(some)};
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 4
        for (int64_t f = 0; f < 4; ++f) sums[m][n] += load(x + m * shape.width + at * 4 + f * kLane, Whole{}) * w[f];
    }
  }
  for (int64_t g = 0; g < groups; g += kGroupSpan)
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) sums[m][n] += load(x_sums + m * groups + g, Whole{}) * -1.5f;
  put(sums, y, shape.y_stride);
}

// Two fields are a group: their products are scaled together.
template <int64_t X, int First>
HONE_INLINE void add_group(Words words, const float* x, int64_t width, float factor, Lane (&sums)[X]) {
  const Lane low = field<4, First>(words), high = field<4, First + 1>(words);
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m) {
    const float* from = x + m * width + First * kLane;
    const Lane products = load(from, Whole{}) * low + load(from + kLane, Whole{}) * high;
    sums[m] += products * factor;
  }
}

template <int64_t X, int64_t W>
HONE_INLINE void int4_tile(const float* x, const float* x_sums, const int32_t* codes, const c10::BFloat16* scales, float* y, const SmallShape& shape) {
  constexpr int64_t kSpanInputs = kGroupSpan * kPackedGroup;
  Lane sums[W][X] = {};
  const int64_t words = shape.width / 8, groups = padded_groups(shape.width);
  for (int64_t span = 0; span < shape.width; span += kSpanInputs) {
    float factors[W][kGroupSpan];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const auto* from = scales + n * 2 * groups + span / kSpanInputs * 2 * kGroupSpan;
      __builtin_prefetch(from + W * 2 * groups);
      const auto [factor, base] = load_scales(from);
      store(factors[n], factor, Whole{});
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) sums[n][m] += base * load(x_sums + m * groups + span / kPackedGroup, Whole{});
    }
    const int64_t end = span + kSpanInputs < shape.width ? span + kSpanInputs : shape.width;
    for (int64_t i = span; i < end; i += kPackedBlock) {
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) {
        __builtin_prefetch(codes + (n + W) * words + i / 8);
        const Words some = load_words(codes + n * words + i / 8);
        const float* factor = factors[n] + (i - span) / kPackedGroup;
        add_group<X, 0>(some, x + i, shape.width, factor[0], sums[n]);
        add_group<X, 2>(some, x + i, shape.width, factor[1], sums[n]);
        add_group<X, 4>(some, x + i, shape.width, factor[2], sums[n]);
        add_group<X, 6>(some, x + i, shape.width, factor[3], sums[n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n)
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) y[m * shape.y_stride + n] = folded(sums[n][m]);
}

// The tiles of `count` outputs: tile<X, W>(first row, first output).
template <class Tile>
HONE_INLINE void for_tiles(const SmallShape& shape, Tile tile) {
  int64_t m = 0;
  for (; m + kSharingRows <= shape.rows; m += kSharingRows) {
    int64_t n = 0;
    for (; n + kSharedOutputs <= shape.count; n += kSharedOutputs) tile.template operator()<kSharingRows, kSharedOutputs>(m, n);
    for (; n < shape.count; ++n) tile.template operator()<kSharingRows, 1>(m, n);
  }
  for (; m < shape.rows; ++m) {
    int64_t n = 0;
    for (; n + kOutputs <= shape.count; n += kOutputs) tile.template operator()<1, kOutputs>(m, n);
    for (; n < shape.count; ++n) tile.template operator()<1, 1>(m, n);
  }
}

}  // namespace

HONE_CPU_KERNEL void group_sums(const float* x, float* sums, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = x + m * width + g * kPackedGroup;
      sums[m * groups + g] = g * kPackedGroup < width ? folded(load(from, Whole{}) + load(from + kLane, Whole{})) : 0.0f;
    }
}

HONE_CPU_KERNEL void packed_outputs_int8(const float* x, const float* sums, const int32_t* codes, const float* scales, float* y, const SmallShape& shape) {
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) __attribute__((always_inline)) {
    int8_tile<X, W>(x + m * shape.width, sums + m * padded_groups(shape.width), codes + n * (shape.width / 4), y + m * shape.y_stride + n, shape);
  });
  for (int64_t m = 0; m < shape.rows; ++m)
    for (int64_t n = 0; n < shape.count; ++n) y[m * shape.y_stride + n] *= scales[n] * 256.0f;
}

HONE_CPU_KERNEL void packed_outputs_int4(const float* x, const float* sums, const int32_t* codes, const c10::BFloat16* scales, float* y,
                                         const SmallShape& shape) {
  const int64_t groups = padded_groups(shape.width);
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) __attribute__((always_inline)) {
    int4_tile<X, W>(x + m * shape.width, sums + m * groups, codes + n * (shape.width / 8), scales + n * 2 * groups, y + m * shape.y_stride + n, shape);
  });
}

HONE_CPU_KERNEL void unpack_int8(const int32_t* codes, const float* scales, float* weight, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; ++n) {
    const float factor = scales[n] * 256.0f;
    for (int64_t i = 0; i < width; i += 4 * kLane, codes += kPackedWords, weight += 4 * kLane) {
      const Words some = load_words(codes);
      const Lane w[4] = {field<8, 0>(some), field<8, 1>(some), field<8, 2>(some), field<8, 3>(some)};
#pragma GCC unroll 4
      for (int64_t f = 0; f < 4; ++f) store(weight + f * kLane, (w[f] - 1.5f) * factor, Whole{});
    }
  }
}

HONE_CPU_KERNEL void unpack_int4(const int32_t* codes, const c10::BFloat16* scales, float* weight, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t n = 0; n < rows; ++n, scales += 2 * groups)
    for (int64_t i = 0; i < width; i += kPackedBlock, codes += kPackedWords, weight += kPackedBlock) {
      const auto [factor, base] = load_scales(scales + i / kPackedGroup / kGroupSpan * 2 * kGroupSpan);
      const Words some = load_words(codes);
      const Lane w[8] = {field<4, 0>(some), field<4, 1>(some), field<4, 2>(some), field<4, 3>(some),
                         field<4, 4>(some), field<4, 5>(some), field<4, 6>(some), field<4, 7>(some)};
      for (int64_t f = 0; f < 8; ++f) {
        const int64_t group = (i / kPackedGroup + f / 2) % kGroupSpan;
        store(weight + f * kLane, w[f] * factor[group] + base[group], Whole{});
      }
    }
}

}  // namespace hone::ops::cpu
