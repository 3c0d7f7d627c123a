#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include "hone/base/x86_intrinsics.h"
#include "hone/media/column_taps.h"
#include "hone/media/resize_dots.h"

namespace hone::media {
namespace {

#define HONE_RESIZE_DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define HONE_RESIZE_DOTS_INLINE HONE_RESIZE_DOTS __attribute__((always_inline)) inline

static_assert(kSampleOffset == 0, "products are of unsigned samples and signed digits");

// Sums by digit of the weights. The total is low + 256 middle + 65536 high.
struct WideDigitSums {
  __m512i low, middle, high;
};

// The digits of the weights of four taps in every lane.
using Digits = WideDigitSums;

HONE_RESIZE_DOTS_INLINE WideDigitSums sums_from(__m512i start) { return {start, _mm512_setzero_si512(), _mm512_setzero_si512()}; }

HONE_RESIZE_DOTS_INLINE __m512i four_bytes(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm512_set1_epi32(word);
}

// kTapsAtOnce weights of Taps::digits.
HONE_RESIZE_DOTS_INLINE Digits digits_at(const int8_t* digits) {
  return {four_bytes(digits), four_bytes(digits + kTapsAtOnce), four_bytes(digits + 2 * kTapsAtOnce)};
}

HONE_RESIZE_DOTS_INLINE void add_dots(WideDigitSums& sums, __m512i samples, const Digits& digits) {
  sums.low = _mm512_dpbusd_epi32(sums.low, samples, digits.low);
  sums.middle = _mm512_dpbusd_epi32(sums.middle, samples, digits.middle);
  sums.high = _mm512_dpbusd_epi32(sums.high, samples, digits.high);
}

// The total without its lowest 16 bits: flooring digit by digit equals flooring once.
HONE_RESIZE_DOTS_INLINE __m512i upper_bits(const WideDigitSums& sums) {
  const __m512i middle = _mm512_add_epi32(sums.middle, _mm512_srai_epi32(sums.low, 8));
  return _mm512_add_epi32(sums.high, _mm512_srai_epi32(middle, 8));
}

// upper_bits of the sums of taps that fit one step: the sum of a digit begins with the upper bits of the lower ones.
HONE_RESIZE_DOTS_INLINE __m512i sum_of_step(__m512i samples, const Digits& digits, __m512i start) {
  const __m512i low = _mm512_dpbusd_epi32(start, samples, digits.low);
  const __m512i middle = _mm512_dpbusd_epi32(_mm512_srai_epi32(low, 8), samples, digits.middle);
  return _mm512_dpbusd_epi32(_mm512_srai_epi32(middle, 8), samples, digits.high);
}

// Samples in 16 bits, not clamped yet, of upper bits: those of `a` before those of `b` in every 128 bits.
HONE_RESIZE_DOTS_INLINE __m512i halves(__m512i a, __m512i b) {
  return _mm512_srai_epi16(_mm512_packs_epi32(a, b), kWeightBits - 16);
}

// A row of kRowsInRegisters in each 128 bits.
HONE_RESIZE_DOTS_INLINE __m512i sixteen_of_each(const uint8_t* const* rows, size_t at) {
  const auto lane = [&](size_t row)
                        HONE_RESIZE_DOTS { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + at)); };
  const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(lane(0)), lane(1), 1),
                second = _mm256_inserti128_si256(_mm256_castsi128_si256(lane(2)), lane(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

HONE_RESIZE_DOTS_INLINE __m512i every_lane(const void* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}

template <int kRow>
HONE_RESIZE_DOTS_INLINE void store_pixel(__m128i pixels, uint8_t* to, size_t bytes) {
  const auto pixel = static_cast<uint32_t>(_mm_extract_epi32(pixels, kRow));
  std::memcpy(to, &pixel, bytes);
}

// Pixel by pixel. Writes four bytes if the row has room; the next pixel overwrites its own part.
template <size_t kChannels>
HONE_RESIZE_DOTS void columns_by_wide_dots(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps) {
  static_assert(kRowsInRegisters == 4 && kTapsAtOnce == 4);
  uint8_t places[16];  // the four taps of a channel adjacent
  for (size_t i = 0; i < 16; ++i) places[i] = i / 4 < kChannels ? static_cast<uint8_t>(i % 4 * kChannels + i / 4) : 0xFF;
  const __m512i order = every_lane(places);
  const size_t row_size = taps.size() * kChannels;
  size_t to = 0;
  for (const auto& tap : taps) {
    auto sums = sums_from(_mm512_set1_epi32(tap.start));
    const int8_t* digits = tap.digits;
    for (size_t i = 0, at = tap.first * kChannels; i < tap.count; i += kTapsAtOnce, at += kTapsAtOnce * kChannels) {
      add_dots(sums, _mm512_shuffle_epi8(sixteen_of_each(rows, at), order), digits_at(digits));
      digits += kDigitBytes;
    }
    const __m512i samples = _mm512_max_epi32(_mm512_srai_epi32(upper_bits(sums), kWeightBits - 16), _mm512_setzero_si512());
    const __m128i pixels = _mm512_cvtusepi32_epi8(samples);
    const auto store = [&](size_t bytes) HONE_RESIZE_DOTS {
      store_pixel<0>(pixels, out[0] + to, bytes), store_pixel<1>(pixels, out[1] + to, bytes);
      store_pixel<2>(pixels, out[2] + to, bytes), store_pixel<3>(pixels, out[3] + to, bytes);
    };
    to + 4 <= row_size ? store(4) : store(kChannels);
    to += kChannels;
  }
}

auto columns_by_wide_dots_of(size_t channels) {
  switch (channels) {
    case 1:
      return columns_by_wide_dots<1>;
    case 2:
      return columns_by_wide_dots<2>;
    case 3:
      return columns_by_wide_dots<3>;
    default:
      return columns_by_wide_dots<4>;
  }
}

HONE_RESIZE_DOTS_INLINE Digits digits_of(const ColumnTaps::Step& step) {
  return {every_lane(step.low), every_lane(step.middle), every_lane(step.high)};
}

// upper_bits of four adjacent samples of kRowsInRegisters rows.
HONE_RESIZE_DOTS_INLINE __m512i sum_of_quad(const uint8_t* const* rows, size_t pixel_bytes, const ColumnTaps::Quad& quad,
                                            const ColumnTaps::Step* step) {
  const __m512i start = every_lane(quad.start);
  const auto samples = [&](size_t i) HONE_RESIZE_DOTS {
    return _mm512_shuffle_epi8(sixteen_of_each(rows, quad.first + i * kTapsAtOnce * pixel_bytes), every_lane(step[i].places));
  };
  if (quad.steps == 1) return sum_of_step(samples(0), digits_of(*step), start);
  auto sums = sums_from(start);
  for (size_t i = 0; i < quad.steps; ++i) add_dots(sums, samples(i), digits_of(step[i]));
  return upper_bits(sums);
}

HONE_RESIZE_DOTS_INLINE void store_eight(__m128i samples, uint8_t* to, size_t room) {
  if (room >= 8) return _mm_storel_epi64(reinterpret_cast<__m128i*>(to), samples);
  const auto bytes = _mm_cvtsi128_si64(samples);
  std::memcpy(to, &bytes, room);
}

// Two quads are eight bytes of a row.
HONE_RESIZE_DOTS void columns_by_quads(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps) {
  const auto quads = taps.quads();
  const size_t pixel_bytes = taps.channels(), row_size = taps.samples();
  const ColumnTaps::Step* step = taps.steps();
  for (size_t i = 0; i < quads.size(); i += 2) {
    const auto* const next = step + quads[i].steps;
    const size_t at = 4 * i, room = row_size - at;
#pragma GCC unroll 2
    for (size_t row = 0; row < kRowsAtOnce; row += kRowsInRegisters) {
      const __m512i eight =
          halves(sum_of_quad(rows + row, pixel_bytes, quads[i], step), sum_of_quad(rows + row, pixel_bytes, quads[i + 1], next));
      const __m512i samples = _mm512_packus_epi16(eight, eight);
      uint8_t* const* to = out + row;
      store_eight(_mm512_castsi512_si128(samples), to[0] + at, room);
      store_eight(_mm512_extracti32x4_epi32(samples, 1), to[1] + at, room);
      store_eight(_mm512_extracti32x4_epi32(samples, 2), to[2] + at, room);
      store_eight(_mm512_extracti32x4_epi32(samples, 3), to[3] + at, room);
    }
    step = next + quads[i + 1].steps;
  }
}

constexpr size_t kSamples = 64;  // of a register

// Adjacent samples of four rows, those of a column adjacent: four columns in each 128 bits of a register.
struct WideColumnsOfFour {
  __m512i a, b, c, d;
};

HONE_RESIZE_DOTS_INLINE WideColumnsOfFour columns_of_four(const uint8_t* const* rows, size_t x, __mmask64 inside) {
  const auto row = [&](size_t i) HONE_RESIZE_DOTS { return _mm512_maskz_loadu_epi8(inside, rows[i] + x); };
  const __m512i early = _mm512_unpacklo_epi8(row(0), row(1)), early_above = _mm512_unpackhi_epi8(row(0), row(1)),
                late = _mm512_unpacklo_epi8(row(2), row(3)), late_above = _mm512_unpackhi_epi8(row(2), row(3));
  return {_mm512_unpacklo_epi16(early, late), _mm512_unpackhi_epi16(early, late), _mm512_unpacklo_epi16(early_above, late_above),
          _mm512_unpackhi_epi16(early_above, late_above)};
}

// Four rows from `rows` on. Taps past the last row have weight 0 and refer to that row.
HONE_RESIZE_DOTS_INLINE void next_rows(const uint8_t* rows, size_t width, size_t left, const uint8_t** four) {
  for (size_t i = 0; i < kTapsAtOnce; ++i) four[i] = rows + std::min(i, left - 1) * width;
}

HONE_RESIZE_DOTS_INLINE __m512i samples_of_rows(const uint8_t* rows, size_t width, const Taps& taps, size_t x, __mmask64 inside) {
  const __m512i start = _mm512_set1_epi32(taps.start);
  const uint8_t* four[kTapsAtOnce];
  next_rows(rows, width, taps.count, four);
  if (taps.count <= kTapsAtOnce) {
    const auto columns = columns_of_four(four, x, inside);
    const auto digits = digits_at(taps.digits);
    return _mm512_packus_epi16(halves(sum_of_step(columns.a, digits, start), sum_of_step(columns.b, digits, start)),
                               halves(sum_of_step(columns.c, digits, start), sum_of_step(columns.d, digits, start)));
  }
  auto a = sums_from(start), b = a, c = a, d = a;
  for (size_t i = 0; i < taps.count; i += kTapsAtOnce) {
    next_rows(rows + i * width, width, taps.count - i, four);
    const auto columns = columns_of_four(four, x, inside);
    const auto digits = digits_at(taps.digits + i / kTapsAtOnce * kDigitBytes);
    add_dots(a, columns.a, digits), add_dots(b, columns.b, digits);
    add_dots(c, columns.c, digits), add_dots(d, columns.d, digits);
  }
  return _mm512_packus_epi16(halves(upper_bits(a), upper_bits(b)), halves(upper_bits(c), upper_bits(d)));
}

HONE_RESIZE_DOTS void row_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  for (size_t x = 0; x < width; x += kSamples) {
    const auto inside = static_cast<__mmask64>(width - x < kSamples ? (uint64_t{1} << (width - x)) - 1 : ~uint64_t{0});
    _mm512_mask_storeu_epi8(out + x, inside, samples_of_rows(rows, width, taps, x, inside));
  }
}

}  // namespace

bool has_byte_dots() {
  static const bool has =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return has;
}

bool resize_columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps) {
  if (!has_byte_dots()) return false;
  if (!taps.quads().empty()) return columns_by_quads(rows, out, taps), true;
  const auto resize = columns_by_wide_dots_of(taps.channels());
  for (size_t row = 0; row < kRowsAtOnce; row += kRowsInRegisters) resize(rows + row, out + row, taps.taps());
  return true;
}

bool resize_rows_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  if (!has_byte_dots()) return false;
  return row_by_dots(rows + taps.first * width, out, width, taps), true;
}

}  // namespace hone::media

#endif
