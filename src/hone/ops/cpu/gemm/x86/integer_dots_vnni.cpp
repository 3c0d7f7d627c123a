#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/x86/integer_dots.h"
#include "hone/ops/cpu/gemm/x86/vnni.h"

namespace hone::ops::cpu {
namespace {

// Like the tile of small_outputs: the order of a sum depends only on the width, and the next outputs are prefetched.
template <int64_t X, int64_t W>
HONE_VNNI void split_tile(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape) {
  F32x16 sums[W][X] = {};
  const int64_t words = shape.width / 4, groups = shape.width / kSplitGroup;
  for (int64_t g = 0; g < groups; ++g)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(codes + (n + W) * words + g * kPackedWords);
      const PairedCodes some = paired_codes(load_words(codes + n * words + g * kPackedWords));
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        const int32_t* inputs = x.words + (m * groups + g) * kSplitWords;
        const I32x16 even = add_pair_dots(I32x16{}, some.even, load_words(inputs)),
                     dots = add_pair_dots(even, some.odd, load_words(inputs + kPackedWords));
        sums[n][m] += __builtin_convertvector(dots, F32x16) * x.scales[m * groups + g];
      }
    }
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

HONE_INLINE Words load_bytes(const int8_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

template <int64_t X, int64_t W>
HONE_VNNI void byte_tile(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                         const SkinnyShape& shape) {
  F32x16 sums[W][X] = {};
  const int64_t words = shape.width / 8, groups = padded_groups(shape.width);
  for (int64_t span = 0; span < shape.width; span += kSpanInputs) {
    float factors[W][kSpanInputs / 8];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const auto* from = scales + n * 2 * groups + span / kSpanInputs * 2 * kGroupSpan;
      __builtin_prefetch(from + W * 2 * groups);
      spread_groups(load(from, FullVector{}), factors[n]);
      const F32x16 lowest = load(from + kGroupSpan, FullVector{});
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) sums[n][m] += lowest * load(x.sums + m * groups + span / kPackedGroup, FullVector{});
    }
    const int64_t end = std::min(span + kSpanInputs, shape.width);
    for (int64_t i = span; i < end; i += kPackedBlock) {
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) {
        __builtin_prefetch(codes + (n + W) * words + i / 8);
        const Words some = load_words(codes + n * words + i / 8);
        const Words even = some & 0x0F0F0F0Fu, odd = (some >> 4) & 0x0F0F0F0Fu;
        const F32x16 factor = load(factors[n] + (i - span) / 8, FullVector{});
#pragma GCC unroll 8
        for (int64_t m = 0; m < X; ++m) {
          const int8_t* inputs = x.codes + m * shape.width + i;
          const I32x16 of_even = add_byte_dots(I32x16{}, even, load_bytes(inputs)),
                       dots = add_byte_dots(of_even, odd, load_bytes(inputs + kPackedBlock / 2));
          sums[n][m] += __builtin_convertvector(dots, F32x16) * (factor * load(x.scales + m * words + i / 8, FullVector{}));
        }
      }
    }
  }
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

}  // namespace

void split_outputs_vnni(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape) {
  for_tiles<kVnniRows>(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const Int16Activations rows{x.words + m * (shape.width / 2), x.scales + m * (shape.width / kSplitGroup)};
    split_tile<X, W>(rows, codes + n * (shape.width / 4), y + m * shape.y_stride + n, shape);
  });
}

void byte_outputs_vnni(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                       const SkinnyShape& shape) {
  const int64_t groups = padded_groups(shape.width);
  for_tiles<kVnniRows>(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const QuantizedActivations rows{x.codes + m * shape.width, x.scales + m * shape.width / 8, x.sums + m * groups};
    byte_tile<X, W>(rows, codes + n * (shape.width / 8), scales + n * 2 * groups, y + m * shape.y_stride + n, shape);
  });
}

}  // namespace hone::ops::cpu

#endif
