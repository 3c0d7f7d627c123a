#include "hone/media/resize_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/media/vector/resize_rows.cpp"
#include <hwy/foreach_target.h>
// foreach_target comes first.
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "hone/media/column_taps.h"
#include "hone/media/resize_dots.h"

HWY_BEFORE_NAMESPACE();
namespace hone::media::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sample at `from` and those `stride` bytes apart after it, rounded and clamped to 0 … 255.
HWY_INLINE uint8_t sample_of(const uint8_t* from, size_t stride, size_t count, std::span<const int32_t> weights) {
  int32_t sum = 1 << (kWeightBits - 1);
  for (size_t i = 0; i < count; ++i) sum += from[i * stride] * weights[i];
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

#if HWY_TARGET == HWY_SCALAR  // x86_64 without AVX2 where Highway does not trust the compiler with EMU128

void columns_of(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps, size_t channels) {
  for (size_t row = 0; row < kRowsInRegisters; ++row)
    for (size_t x = 0; x < taps.size() * channels; ++x) {
      const auto& tap = taps[x / channels];
      out[row][x] = sample_of(rows[row] + tap.first * channels + x % channels, channels, tap.count, tap.weights);
    }
}

void row_of(const uint8_t* rows, size_t count, uint8_t* out, size_t width, std::span<const int32_t> weights) {
  for (size_t x = 0; x < width; ++x) out[x] = sample_of(rows + x, width, count, weights);
}

#else

constexpr size_t kBytes = 16;
using ByteTag = hn::FixedTag<uint8_t, kBytes>;
using SumTag = hn::FixedTag<int32_t, kBytes / 4>;
using Bytes = hn::Vec<ByteTag>;
using Sums = hn::Vec<SumTag>;

// A lookup that moves `count` bytes from `first` on into 32-bit lanes; the other lanes become 0.
HWY_INLINE Bytes widening(size_t first, size_t count) {
  uint8_t places[kBytes];
  std::memset(places, 0x80, kBytes);
  for (size_t i = 0; i < count; ++i) places[4 * i] = static_cast<uint8_t>(first + i);
  return hn::LoadU(ByteTag(), places);
}

HWY_INLINE Sums plus(Sums sum, Bytes bytes, Bytes widening, Sums weight) {
  return hn::Add(sum, hn::Mul(hn::BitCast(SumTag(), hn::TableLookupBytesOr0(bytes, widening)), weight));
}

HWY_INLINE Sums half() { return hn::Set(SumTag(), 1 << (kWeightBits - 1)); }

// Four samples, rounded and clamped to 0 … 255.
HWY_INLINE auto rounded(Sums sum) { return hn::DemoteTo(hn::Rebind<uint8_t, SumTag>(), hn::ShiftRight<kWeightBits>(sum)); }

// Writes four bytes if the row has room; the next pixel overwrites its own part.
template <size_t kChannels>
HWY_INLINE void store_pixel(Sums sum, uint8_t* to, bool is_inside) {
  const hn::Rebind<uint8_t, SumTag> four_bytes;
  if (is_inside) return hn::StoreU(rounded(sum), four_bytes, to);
  uint8_t pixel[4];
  hn::StoreU(rounded(sum), four_bytes, pixel);
  std::memcpy(to, pixel, kChannels);
}

template <size_t kChannels>
HWY_INLINE void columns(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps) {
  static_assert(kRowsInRegisters == 4 && kTapsAtOnce == 4);
  const uint8_t *const row_a = rows[0], *const row_b = rows[1], *const row_c = rows[2], *const row_d = rows[3];
  uint8_t *const out_a = out[0], *const out_b = out[1], *const out_c = out[2], *const out_d = out[3];
  const Bytes first = widening(0, kChannels), second = widening(kChannels, kChannels), third = widening(2 * kChannels, kChannels),
              fourth = widening(3 * kChannels, kChannels);
  const size_t row_size = taps.size() * kChannels;
  size_t to = 0;
  for (const auto& tap : taps) {
    Sums a = half(), b = a, c = a, d = a;
    for (size_t i = 0, at = tap.first * kChannels; i < tap.weights.size(); i += kTapsAtOnce, at += kTapsAtOnce * kChannels) {
      const Bytes from_a = hn::LoadU(ByteTag(), row_a + at), from_b = hn::LoadU(ByteTag(), row_b + at),
                  from_c = hn::LoadU(ByteTag(), row_c + at), from_d = hn::LoadU(ByteTag(), row_d + at);
      const Sums weights = hn::LoadU(SumTag(), tap.weights.data() + i);
      auto add = [&](Bytes lookup, Sums weight) HWY_ATTR {
        a = plus(a, from_a, lookup, weight), b = plus(b, from_b, lookup, weight);
        c = plus(c, from_c, lookup, weight), d = plus(d, from_d, lookup, weight);
      };
      add(first, hn::Broadcast<0>(weights)), add(second, hn::Broadcast<1>(weights));
      add(third, hn::Broadcast<2>(weights)), add(fourth, hn::Broadcast<3>(weights));
    }
    const bool is_inside = to + 4 <= row_size;
    store_pixel<kChannels>(a, out_a + to, is_inside), store_pixel<kChannels>(b, out_b + to, is_inside);
    store_pixel<kChannels>(c, out_c + to, is_inside), store_pixel<kChannels>(d, out_d + to, is_inside);
    to += kChannels;
  }
}

void columns_of(const uint8_t* const* rows, uint8_t* const* out, std::span<const Taps> taps, size_t channels) {
  switch (channels) {
    case 1:
      return columns<1>(rows, out, taps);
    case 2:
      return columns<2>(rows, out, taps);
    case 3:
      return columns<3>(rows, out, taps);
    default:
      return columns<4>(rows, out, taps);
  }
}

// Weights past the last one are 0 and refer to the last row.
void row_of(const uint8_t* rows, size_t count, uint8_t* out, size_t width, std::span<const int32_t> weights) {
  const hn::Rebind<uint8_t, SumTag> four_bytes;
  const Bytes lookup_a = widening(0, 4), lookup_b = widening(4, 4), lookup_c = widening(8, 4), lookup_d = widening(12, 4);
  size_t x = 0;
  for (; x + kBytes <= width; x += kBytes) {
    Sums a = half(), b = a, c = a, d = a;
    const uint8_t *row = rows + x, *const last = row + (count - 1) * width;
    for (size_t i = 0; i < weights.size(); i += kTapsAtOnce) {
      const Sums taps = hn::LoadU(SumTag(), weights.data() + i);
      auto add = [&](Sums weight) HWY_ATTR {
        const Bytes from = hn::LoadU(ByteTag(), std::min(row, last));
        a = plus(a, from, lookup_a, weight), b = plus(b, from, lookup_b, weight);
        c = plus(c, from, lookup_c, weight), d = plus(d, from, lookup_d, weight);
        row += width;
      };
      add(hn::Broadcast<0>(taps)), add(hn::Broadcast<1>(taps)), add(hn::Broadcast<2>(taps)), add(hn::Broadcast<3>(taps));
    }
    hn::StoreU(rounded(a), four_bytes, out + x), hn::StoreU(rounded(b), four_bytes, out + x + 4);
    hn::StoreU(rounded(c), four_bytes, out + x + 8), hn::StoreU(rounded(d), four_bytes, out + x + 12);
  }
  for (; x < width; ++x) out[x] = sample_of(rows + x, width, count, weights);
}

#endif

}  // namespace hone::media::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::media {

HWY_EXPORT(columns_of);
HWY_EXPORT(row_of);

namespace {

std::atomic<bool> g_uses_dots = true;

}  // namespace

void allow_resize_dots(bool allowed) { g_uses_dots = allowed; }

void resize_columns(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps) {
  if (g_uses_dots && resize_columns_by_dots(rows, out, taps)) return;
  for (size_t row = 0; row < kRowsAtOnce; row += kRowsInRegisters)
    HWY_DYNAMIC_DISPATCH(columns_of)(rows + row, out + row, taps.taps(), taps.channels());
}

void resize_rows(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps) {
  if (g_uses_dots && resize_rows_by_dots(rows, out, width, taps)) return;
  HWY_DYNAMIC_DISPATCH(row_of)(rows + taps.first * width, taps.count, out, width, taps.weights);
}

}  // namespace hone::media
#endif
