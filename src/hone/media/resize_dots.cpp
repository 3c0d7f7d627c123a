#include "hone/media/resize_dots.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>

#include "hone/media/column_taps.h"

namespace hone::media {
namespace {

#define HONE_RESIZE_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))
#define HONE_RESIZE_DOTS_INLINE HONE_RESIZE_DOTS __attribute__((always_inline)) inline

// Sums by digit of the weights. The total is low + 256 middle + 65536 high.
struct DigitSums {
  int32x4_t low, middle, high;
};

HONE_RESIZE_DOTS_INLINE DigitSums sums_from(int32_t start) { return {vdupq_n_s32(start), vdupq_n_s32(0), vdupq_n_s32(0)}; }

// Taps::start contains the correction for the change of sign.
HONE_RESIZE_DOTS_INLINE int8x16_t with_sign(uint8x16_t samples) {
  return vreinterpretq_s8_u8(veorq_u8(samples, vdupq_n_u8(0x80)));
}

// Four samples of four lanes each.
HONE_RESIZE_DOTS_INLINE void add_dots(DigitSums& sums, uint8x16_t samples, int8x16_t digits) {
  const int8x16_t signed_samples = with_sign(samples);
  sums.low = vdotq_laneq_s32(sums.low, signed_samples, digits, 0);
  sums.middle = vdotq_laneq_s32(sums.middle, signed_samples, digits, 1);
  sums.high = vdotq_laneq_s32(sums.high, signed_samples, digits, 2);
}

// The total without its lowest 16 bits: flooring digit by digit equals flooring once.
HONE_RESIZE_DOTS_INLINE int32x4_t upper_bits(const DigitSums& sums) {
  return vsraq_n_s32(sums.high, vsraq_n_s32(sums.middle, sums.low, 8), 8);
}

HONE_RESIZE_DOTS_INLINE int16x8_t lower_halves(int32x4_t a, int32x4_t b) {
  return vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
}

HONE_RESIZE_DOTS_INLINE int16x8_t upper_halves(const DigitSums& a, const DigitSums& b) {
  return lower_halves(upper_bits(a), upper_bits(b));
}

constexpr int kBitsLeft = kWeightBits - 16;

// Clamps to 0 … 255.
HONE_RESIZE_DOTS_INLINE uint8x16_t clamped(int16x8_t first, int16x8_t second) {
  return vqshrun_high_n_s16(vqshrun_n_s16(first, kBitsLeft), second, kBitsLeft);
}

HONE_RESIZE_DOTS_INLINE uint8x16_t samples_of(const DigitSums& a, const DigitSums& b, const DigitSums& c, const DigitSums& d) {
  return clamped(upper_halves(a, b), upper_halves(c, d));
}

// Writes four bytes if the row has room; the next pixel overwrites its own part.
template <size_t kChannels, int kRow>
HONE_RESIZE_DOTS_INLINE void store_lane(uint8x16_t samples, uint8_t* to, bool is_inside) {
  const uint32_t pixel = vgetq_lane_u32(vreinterpretq_u32_u8(samples), kRow);
  if (is_inside) return void(std::memcpy(to, &pixel, sizeof pixel));
  std::memcpy(to, &pixel, kChannels);
}

HONE_RESIZE_DOTS_INLINE void store_eight(uint8x8_t samples, uint8_t* to, size_t room) {
  if (room >= 8) return vst1_u8(to, samples);
  std::memcpy(to, &samples, room);
}

template <size_t kChannels>
HONE_RESIZE_DOTS void columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps) {
  static_assert(kRowsInRegisters == 4 && kTapsAtOnce == 4);
  uint8_t places[16];  // the four taps of a channel adjacent
  for (size_t i = 0; i < 16; ++i) places[i] = i / 4 < kChannels ? static_cast<uint8_t>(i % 4 * kChannels + i / 4) : 0xFF;
  const uint8x16_t order = vld1q_u8(places);
  const uint8_t *const row_a = rows[0], *const row_b = rows[1], *const row_c = rows[2], *const row_d = rows[3];
  uint8_t *const out_a = out[0], *const out_b = out[1], *const out_c = out[2], *const out_d = out[3];
  const size_t row_size = taps.size() * kChannels;
  size_t to = 0;
  for (const auto& tap : taps) {
    DigitSums a = sums_from(tap.start), b = a, c = a, d = a;
    const int8_t* digits = tap.digits;
    for (size_t i = 0, at = tap.first * kChannels; i < tap.count;
         i += kTapsAtOnce, at += kTapsAtOnce * kChannels, digits += kDigitBytes) {
      const int8x16_t weights = vld1q_s8(digits);
      add_dots(a, vqtbl1q_u8(vld1q_u8(row_a + at), order), weights);
      add_dots(b, vqtbl1q_u8(vld1q_u8(row_b + at), order), weights);
      add_dots(c, vqtbl1q_u8(vld1q_u8(row_c + at), order), weights);
      add_dots(d, vqtbl1q_u8(vld1q_u8(row_d + at), order), weights);
    }
    const uint8x16_t pixels = samples_of(a, b, c, d);
    const bool is_inside = to + 4 <= row_size;
    store_lane<kChannels, 0>(pixels, out_a + to, is_inside), store_lane<kChannels, 1>(pixels, out_b + to, is_inside);
    store_lane<kChannels, 2>(pixels, out_c + to, is_inside), store_lane<kChannels, 3>(pixels, out_d + to, is_inside);
    to += kChannels;
  }
}

auto columns_by_dots_of(size_t channels) {
  switch (channels) {
    case 1:
      return columns_by_dots<1>;
    case 2:
      return columns_by_dots<2>;
    case 3:
      return columns_by_dots<3>;
    default:
      return columns_by_dots<4>;
  }
}

// The digits of the weights of four taps in every lane.
struct Digits {
  int8x16_t low, middle, high;
};

// Sums shifted right by one digit. They are not negative: Taps::start has 128 times the sum of the weights. On a Neoverse-N1 one
// of the two vector pipes shifts, and both permute.
HONE_RESIZE_DOTS_INLINE int32x4_t without_lowest_byte(int32x4_t sums) {
  alignas(16) static constexpr uint8_t kPlaces[16] = {1, 2, 3, 0xFF, 5, 6, 7, 0xFF, 9, 10, 11, 0xFF, 13, 14, 15, 0xFF};
  return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(sums), vld1q_u8(kPlaces)));
}

// upper_bits of the sums of taps that fit one step: the sum of a digit begins with the upper bits of the lower ones.
HONE_RESIZE_DOTS_INLINE int32x4_t sum_of_step(uint8x16_t samples, const Digits& digits, int32x4_t start) {
  const int8x16_t signed_samples = with_sign(samples);
  const int32x4_t low = vdotq_s32(start, signed_samples, digits.low);
  const int32x4_t middle = vdotq_s32(without_lowest_byte(low), signed_samples, digits.middle);
  return vdotq_s32(without_lowest_byte(middle), signed_samples, digits.high);
}

HONE_RESIZE_DOTS_INLINE Digits digits_of(const ColumnTaps::Step& step) {
  return {vld1q_s8(step.low), vld1q_s8(step.middle), vld1q_s8(step.high)};
}

HONE_RESIZE_DOTS_INLINE int32x4_t sum_of_steps(const uint8_t* row, size_t pixel_bytes, const ColumnTaps::Step* step,
                                               const ColumnTaps::Quad& quad) {
  DigitSums sums{vld1q_s32(quad.start), vdupq_n_s32(0), vdupq_n_s32(0)};
  for (size_t i = 0; i < quad.steps; ++i, ++step, row += kTapsAtOnce * pixel_bytes) {
    const int8x16_t samples = with_sign(vqtbl1q_u8(vld1q_u8(row), vld1q_u8(step->places)));
    const auto digits = digits_of(*step);
    sums.low = vdotq_s32(sums.low, samples, digits.low);
    sums.middle = vdotq_s32(sums.middle, samples, digits.middle);
    sums.high = vdotq_s32(sums.high, samples, digits.high);
  }
  return upper_bits(sums);
}

// Four adjacent output samples of each of kRowsAtOnce rows.
HONE_RESIZE_DOTS_INLINE void next_quad(const uint8_t* const* rows, size_t pixel_bytes, const ColumnTaps::Quad& quad,
                                       const ColumnTaps::Step*& next, int32x4_t* sums) {
  const auto* const step = next;
  next += quad.steps;
  if (quad.steps > 1) {
    for (size_t row = 0; row < kRowsAtOnce; ++row) sums[row] = sum_of_steps(rows[row] + quad.first, pixel_bytes, step, quad);
    return;
  }
  const auto digits = digits_of(*step);
  const uint8x16_t places = vld1q_u8(step->places);
  const int32x4_t start = vld1q_s32(quad.start);
#pragma GCC unroll 8
  for (size_t row = 0; row < kRowsAtOnce; ++row)
    sums[row] = sum_of_step(vqtbl1q_u8(vld1q_u8(rows[row] + quad.first), places), digits, start);
}

// Many rows share what is read of the taps. Two quads are eight bytes of a row.
HONE_RESIZE_DOTS void columns_by_quads(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps) {
  const auto quads = taps.quads();
  const size_t pixel_bytes = taps.channels(), row_size = taps.samples();
  const ColumnTaps::Step* step = taps.steps();
  const uint8_t* from[kRowsAtOnce];
  uint8_t* to[kRowsAtOnce];
  for (size_t row = 0; row < kRowsAtOnce; ++row) from[row] = rows[row], to[row] = out[row];
  for (size_t i = 0; i < quads.size(); i += 2) {
    int32x4_t first[kRowsAtOnce], second[kRowsAtOnce];
    next_quad(from, pixel_bytes, quads[i], step, first), next_quad(from, pixel_bytes, quads[i + 1], step, second);
    const size_t at = 4 * i, room = row_size - at;
#pragma GCC unroll 8
    for (size_t row = 0; row < kRowsAtOnce; ++row)
      store_eight(vqshrun_n_s16(lower_halves(first[row], second[row]), kBitsLeft), to[row] + at, room);
  }
}

// Sixteen adjacent samples of four rows, those of a column adjacent.
struct ColumnsOfFour {
  uint8x16_t a, b, c, d;
};

HONE_RESIZE_DOTS_INLINE ColumnsOfFour columns_of_four(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  const uint8x16_t first = vld1q_u8(a), second = vld1q_u8(b), third = vld1q_u8(c), fourth = vld1q_u8(d);
  const uint16x8_t early = vreinterpretq_u16_u8(vzip1q_u8(first, second)),
                   early_above = vreinterpretq_u16_u8(vzip2q_u8(first, second)),
                   late = vreinterpretq_u16_u8(vzip1q_u8(third, fourth)),
                   late_above = vreinterpretq_u16_u8(vzip2q_u8(third, fourth));
  return {vreinterpretq_u8_u16(vzip1q_u16(early, late)), vreinterpretq_u8_u16(vzip2q_u16(early, late)),
          vreinterpretq_u8_u16(vzip1q_u16(early_above, late_above)), vreinterpretq_u8_u16(vzip2q_u16(early_above, late_above))};
}

// Sixteen adjacent samples. Taps past the last row have weight 0 and refer to that row.
HONE_RESIZE_DOTS_INLINE uint8x16_t sixteen_of_rows(const uint8_t* row, size_t width, const Taps& taps) {
  DigitSums a = sums_from(taps.start), b = a, c = a, d = a;
  const uint8_t* const last = row + (taps.count - 1) * width;
  const int8_t* digits = taps.digits;
  for (size_t i = 0; i < taps.count; i += kTapsAtOnce, digits += kDigitBytes, row += kTapsAtOnce * width) {
    const auto columns =
        columns_of_four(row, std::min(row + width, last), std::min(row + 2 * width, last), std::min(row + 3 * width, last));
    const int8x16_t weights = vld1q_s8(digits);
    add_dots(a, columns.a, weights), add_dots(b, columns.b, weights);
    add_dots(c, columns.c, weights), add_dots(d, columns.d, weights);
  }
  return samples_of(a, b, c, d);
}

// The same with taps that fit one step.
struct RowOfFour {
  HONE_RESIZE_DOTS_INLINE explicit RowOfFour(const uint8_t* rows, size_t width, const Taps& taps)
      : start(vdupq_n_s32(taps.start)), first(rows) {
    const int32x4_t lanes = vreinterpretq_s32_s8(vld1q_s8(taps.digits));
    digits = {vreinterpretq_s8_s32(vdupq_laneq_s32(lanes, 0)), vreinterpretq_s8_s32(vdupq_laneq_s32(lanes, 1)),
              vreinterpretq_s8_s32(vdupq_laneq_s32(lanes, 2))};
    const uint8_t* const last = rows + (taps.count - 1) * width;
    second = std::min(rows + width, last), third = std::min(rows + 2 * width, last), fourth = std::min(rows + 3 * width, last);
  }

  HONE_RESIZE_DOTS_INLINE uint8x16_t sixteen(size_t x) const {
    const auto columns = columns_of_four(first + x, second + x, third + x, fourth + x);
    return clamped(lower_halves(sum_of_step(columns.a, digits, start), sum_of_step(columns.b, digits, start)),
                   lower_halves(sum_of_step(columns.c, digits, start), sum_of_step(columns.d, digits, start)));
  }

  Digits digits;
  int32x4_t start;
  const uint8_t *first, *second, *third, *fourth;
};

HONE_RESIZE_DOTS void row_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  const size_t last = width - 16;  // the last sixteen may overlap
  if (taps.count <= kTapsAtOnce) {
    const RowOfFour four(rows, width, taps);
    for (size_t x = 0; x < last; x += 16) vst1q_u8(out + x, four.sixteen(x));
    return vst1q_u8(out + last, four.sixteen(last));
  }
  for (size_t x = 0; x < last; x += 16) vst1q_u8(out + x, sixteen_of_rows(rows + x, width, taps));
  vst1q_u8(out + last, sixteen_of_rows(rows + last, width, taps));
}

}  // namespace

bool has_byte_dots() {
  static const bool has = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return has;
}

bool resize_columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps) {
  if (!has_byte_dots()) return false;
  if (!taps.quads().empty()) return columns_by_quads(rows, out, taps), true;
  const auto resize = columns_by_dots_of(taps.channels());
  for (size_t row = 0; row < kRowsAtOnce; row += kRowsInRegisters) resize(rows + row, out + row, taps.taps());
  return true;
}

bool resize_rows_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  if (!has_byte_dots() || width < 16) return false;
  return row_by_dots(rows + taps.first * width, out, width, taps), true;
}

}  // namespace hone::media

#elif !defined(__x86_64__)  // resize_dots_x86.cpp

namespace hone::media {

bool has_byte_dots() { return false; }

bool resize_columns_by_dots(const uint8_t* const*, uint8_t* const*, const ColumnTaps&) { return false; }

bool resize_rows_by_dots(const uint8_t*, uint8_t*, size_t, const Taps&) { return false; }

}  // namespace hone::media

#endif
