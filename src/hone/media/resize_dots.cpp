#include "hone/media/resize_dots.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>

namespace hone::media {
namespace {

#define HONE_RESIZE_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))
#define HONE_RESIZE_DOTS_INLINE HONE_RESIZE_DOTS __attribute__((always_inline)) inline

bool has_byte_dots() {
  static const bool has = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return has;
}

// Sums by digit of the weights. The total is low + 256 middle + 65536 high.
struct DigitSums {
  int32x4_t low, middle, high;
};

HONE_RESIZE_DOTS_INLINE DigitSums sums_from(int32_t start) { return {vdupq_n_s32(start), vdupq_n_s32(0), vdupq_n_s32(0)}; }

// Four samples of four lanes each; Taps::start contains the correction for the change of sign.
HONE_RESIZE_DOTS_INLINE void add_dots(DigitSums& sums, uint8x16_t samples, int8x16_t digits) {
  const int8x16_t signed_samples = vreinterpretq_s8_u8(veorq_u8(samples, vdupq_n_u8(0x80)));
  sums.low = vdotq_laneq_s32(sums.low, signed_samples, digits, 0);
  sums.middle = vdotq_laneq_s32(sums.middle, signed_samples, digits, 1);
  sums.high = vdotq_laneq_s32(sums.high, signed_samples, digits, 2);
}

// The total without its lowest 16 bits: flooring digit by digit equals flooring once.
HONE_RESIZE_DOTS_INLINE int16x8_t upper_halves(const DigitSums& a, const DigitSums& b) {
  const int32x4_t high_a = vsraq_n_s32(a.high, vsraq_n_s32(a.middle, a.low, 8), 8),
                  high_b = vsraq_n_s32(b.high, vsraq_n_s32(b.middle, b.low, 8), 8);
  return vuzp1q_s16(vreinterpretq_s16_s32(high_a), vreinterpretq_s16_s32(high_b));
}

// Clamps to 0 … 255.
HONE_RESIZE_DOTS_INLINE uint8x16_t samples_of(const DigitSums& a, const DigitSums& b, const DigitSums& c, const DigitSums& d) {
  constexpr int kBitsLeft = kWeightBits - 16;
  return vqshrun_high_n_s16(vqshrun_n_s16(upper_halves(a, b), kBitsLeft), upper_halves(c, d), kBitsLeft);
}

// Writes four bytes if the row has room; the next pixel overwrites its own part.
template <size_t kChannels, int kRow>
HONE_RESIZE_DOTS_INLINE void store_lane(uint8x16_t samples, uint8_t* to, bool is_inside) {
  const uint32_t pixel = vgetq_lane_u32(vreinterpretq_u32_u8(samples), kRow);
  if (is_inside) return void(std::memcpy(to, &pixel, sizeof pixel));
  std::memcpy(to, &pixel, kChannels);
}

template <size_t kChannels>
HONE_RESIZE_DOTS void columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps) {
  static_assert(kRowsAtOnce == 4 && kTapsAtOnce == 4);
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

// Sixteen adjacent samples. Taps past the last row have weight 0 and refer to that row.
HONE_RESIZE_DOTS_INLINE uint8x16_t sixteen_of_rows(const uint8_t* row, size_t width, const Taps& taps) {
  DigitSums a = sums_from(taps.start), b = a, c = a, d = a;
  const uint8_t* const last = row + (taps.count - 1) * width;
  const int8_t* digits = taps.digits;
  for (size_t i = 0; i < taps.count; i += kTapsAtOnce, digits += kDigitBytes, row += kTapsAtOnce * width) {
    const uint8x16_t first = vld1q_u8(row), second = vld1q_u8(std::min(row + width, last)),
                     third = vld1q_u8(std::min(row + 2 * width, last)), fourth = vld1q_u8(std::min(row + 3 * width, last));
    const uint16x8_t early = vreinterpretq_u16_u8(vzip1q_u8(first, second)),
                     early_above = vreinterpretq_u16_u8(vzip2q_u8(first, second)),
                     late = vreinterpretq_u16_u8(vzip1q_u8(third, fourth)),
                     late_above = vreinterpretq_u16_u8(vzip2q_u8(third, fourth));
    const int8x16_t weights = vld1q_s8(digits);
    add_dots(a, vreinterpretq_u8_u16(vzip1q_u16(early, late)), weights);
    add_dots(b, vreinterpretq_u8_u16(vzip2q_u16(early, late)), weights);
    add_dots(c, vreinterpretq_u8_u16(vzip1q_u16(early_above, late_above)), weights);
    add_dots(d, vreinterpretq_u8_u16(vzip2q_u16(early_above, late_above)), weights);
  }
  return samples_of(a, b, c, d);
}

HONE_RESIZE_DOTS void row_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  for (size_t x = 0; x + 16 <= width; x += 16) vst1q_u8(out + x, sixteen_of_rows(rows + x, width, taps));
  if (width % 16 != 0) vst1q_u8(out + width - 16, sixteen_of_rows(rows + width - 16, width, taps));
}

}  // namespace

bool resize_columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps, size_t channels) {
  if (!has_byte_dots()) return false;
  switch (channels) {
    case 1:
      return columns_by_dots<1>(rows, out, taps), true;
    case 2:
      return columns_by_dots<2>(rows, out, taps), true;
    case 3:
      return columns_by_dots<3>(rows, out, taps), true;
    default:
      return columns_by_dots<4>(rows, out, taps), true;
  }
}

bool resize_rows_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  if (!has_byte_dots() || width < 16) return false;
  return row_by_dots(rows + taps.first * width, out, width, taps), true;
}

}  // namespace hone::media

#else

namespace hone::media {

bool resize_columns_by_dots(const uint8_t* const*, uint8_t* const*, std::span<const Taps>, size_t) { return false; }

bool resize_rows_by_dots(const uint8_t*, uint8_t*, size_t, const Taps&) { return false; }

}  // namespace hone::media

#endif
