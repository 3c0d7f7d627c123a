#include "hone/ops/cpu/gemm/packed_kernels.h"

#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {
namespace {

// Sixteen codes as 1 + code / 2^Bits.
template <int Bits, int Field>
HONE_INLINE F32x16 field(Words words) {
  constexpr int kFirst = 23 - Bits, kUp = kFirst - Field * Bits;
  const Words moved = kUp >= 0 ? words << (kUp >= 0 ? kUp : 0) : words >> (kUp < 0 ? -kUp : 0);
  return reinterpret_cast<F32x16>((moved & (((1u << Bits) - 1) << kFirst)) | 0x3F800000u);
}

// Sixteen groups of an output: the scale of a field and the offset of their product.
struct GroupScales {
  F32x16 factor, base;
};
HONE_INLINE GroupScales load_scales(const c10::BFloat16* from) {
  const F32x16 factor = load(from, FullVector{}) * 16.0f;
  return {factor, load(from + kGroupSpan, FullVector{}) - factor};
}

// Like the tile of small_outputs: the order of a sum depends only on the width, and the next outputs are prefetched.
template <int64_t X, int64_t W>
HONE_INLINE void int8_tile(const float* x, const float* x_sums, const int32_t* codes, float* y, const SkinnyShape& shape) {
  F32x16 sums[W][X] = {};
  const int64_t words = shape.width / 4, groups = padded_groups(shape.width);
  for (int64_t at = 0; at < words; at += kPackedWords) {
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(codes + (n + W) * words + at);
      const Words some = load_words(codes + n * words + at);
      const F32x16 w[4] = {field<8, 0>(some), field<8, 1>(some), field<8, 2>(some), field<8, 3>(some)};
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 4
        for (int64_t f = 0; f < 4; ++f) sums[n][m] += load(x + m * shape.width + at * 4 + f * kVectorWidth, FullVector{}) * w[f];
    }
  }
  for (int64_t g = 0; g < groups; g += kGroupSpan)
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) sums[n][m] += load(x_sums + m * groups + g, FullVector{}) * -1.5f;
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

HONE_INLINE void int4_fields(Words words, F32x16 (&w)[8]) {
  w[0] = field<4, 0>(words), w[1] = field<4, 1>(words), w[2] = field<4, 2>(words), w[3] = field<4, 3>(words);
  w[4] = field<4, 4>(words), w[5] = field<4, 5>(words), w[6] = field<4, 6>(words), w[7] = field<4, 7>(words);
}

template <int64_t X, int64_t W>
HONE_INLINE void int4_tile(const float* x, const float* x_sums, const int32_t* codes, const c10::BFloat16* scales, float* y,
                           const SkinnyShape& shape) {
  F32x16 sums[W][X] = {};
  const int64_t words = shape.width / 8, groups = padded_groups(shape.width);
  for (int64_t span = 0; span < shape.width; span += kSpanInputs) {
    float factors[W][kSpanInputs / 8];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const auto* from = scales + n * 2 * groups + span / kSpanInputs * 2 * kGroupSpan;
      __builtin_prefetch(from + W * 2 * groups);
      const auto [factor, base] = load_scales(from);
      spread_groups(factor, factors[n]);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) sums[n][m] += base * load(x_sums + m * groups + span / kPackedGroup, FullVector{});
    }
    const int64_t end = span + kSpanInputs < shape.width ? span + kSpanInputs : shape.width;
    for (int64_t i = span; i < end; i += kPackedBlock) {
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) {
        __builtin_prefetch(codes + (n + W) * words + i / 8);
        const Words some = load_words(codes + n * words + i / 8);
        const F32x16 factor = load(factors[n] + (i - span) / 8, FullVector{});
        F32x16 w[8];
        int4_fields(some, w);
#pragma GCC unroll 8
        for (int64_t m = 0; m < X; ++m) {
          F32x16 products{};
#pragma GCC unroll 8
          for (int64_t f = 0; f < 8; ++f) products += load(x + m * shape.width + i + f * kVectorWidth, FullVector{}) * w[f];
          sums[n][m] += products * factor;
        }
      }
    }
  }
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

// Transposes eight vectors by interleaving halves three times.
HONE_INLINE void store_dealt(F32x16 (&fields)[8], float* to) {
#pragma GCC unroll 3
  for (int round = 0; round < 3; ++round) {
    F32x16 dealt[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F32x16 a = fields[i], b = fields[i + 4];
      dealt[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      dealt[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) fields[i] = dealt[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store(to + i * kVectorWidth, fields[i], FullVector{});
}

}  // namespace

HONE_CPU_KERNEL void group_sums(const float* x, float* sums, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = x + m * width + g * kPackedGroup;
      sums[m * groups + g] =
          g * kPackedGroup < width ? horizontal_sum(load(from, FullVector{}) + load(from + kVectorWidth, FullVector{})) : 0.0f;
    }
}

HONE_CPU_KERNEL void order_by_fields(const float* x, float* ordered, int64_t count) {
  for (int64_t i = 0; i < count; i += kPackedBlock)
    for (int64_t f = 0; f < 8; ++f)
      for (int64_t word = 0; word < kPackedWords; ++word) ordered[i + f * kPackedWords + word] = x[i + word * 8 + f];
}

HONE_CPU_KERNEL void packed_outputs_int8(const float* x, const float* sums, const int32_t* codes, const float* scales, float* y,
                                         const SkinnyShape& shape) {
  for_tiles(
      shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) __attribute__((always_inline)) {
        int8_tile<X, W>(x + m * shape.width, sums + m * padded_groups(shape.width), codes + n * (shape.width / 4),
                        y + m * shape.y_stride + n, shape);
      });
  for (int64_t m = 0; m < shape.rows; ++m)
    for (int64_t n = 0; n < shape.count; ++n) y[m * shape.y_stride + n] *= scales[n] * 256.0f;
}

HONE_CPU_KERNEL void packed_outputs_int4(const float* ordered, const float* sums, const int32_t* codes,
                                         const c10::BFloat16* scales, float* y, const SkinnyShape& shape) {
  const int64_t groups = padded_groups(shape.width);
  for_tiles(
      shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) __attribute__((always_inline)) {
        int4_tile<X, W>(ordered + m * shape.width, sums + m * groups, codes + n * (shape.width / 8), scales + n * 2 * groups,
                        y + m * shape.y_stride + n, shape);
      });
}

HONE_CPU_KERNEL void scale_outputs(float* y, const float* scales, int64_t rows, int64_t count, int64_t stride) {
  for (int64_t m = 0; m < rows; ++m, y += stride)
    for_each_vector(
        count, [&](int64_t i, auto extent)
                   __attribute__((always_inline)) { store(y + i, load(y + i, extent) * load(scales + i, extent), extent); });
}

HONE_CPU_KERNEL void unpack_int8(const int32_t* codes, const float* scales, float* weight, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; ++n) {
    const float factor = scales[n] * 256.0f;
    for (int64_t i = 0; i < width; i += 4 * kVectorWidth, codes += kPackedWords, weight += 4 * kVectorWidth) {
      const Words some = load_words(codes);
      const F32x16 w[4] = {field<8, 0>(some), field<8, 1>(some), field<8, 2>(some), field<8, 3>(some)};
#pragma GCC unroll 4
      for (int64_t f = 0; f < 4; ++f) store(weight + f * kVectorWidth, (w[f] - 1.5f) * factor, FullVector{});
    }
  }
}

HONE_CPU_KERNEL void unpack_int4(const int32_t* codes, const c10::BFloat16* scales, float* weight, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t n = 0; n < rows; ++n, scales += 2 * groups)
    for (int64_t i = 0; i < width; i += kPackedBlock, codes += kPackedWords, weight += kPackedBlock) {
      const auto [factor, base] = load_scales(scales + i / kSpanInputs * 2 * kGroupSpan);
      float factors[kSpanInputs / 8], bases[kSpanInputs / 8];
      spread_groups(factor, factors);
      spread_groups(base, bases);
      const F32x16 by = load(factors + i % kSpanInputs / 8, FullVector{}), from = load(bases + i % kSpanInputs / 8, FullVector{});
      F32x16 w[8];
      int4_fields(load_words(codes), w);
      for (auto& one : w) one = one * by + from;
      store_dealt(w, weight);
    }
}

}  // namespace hone::ops::cpu
