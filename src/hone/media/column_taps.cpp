#include "hone/media/column_taps.h"

#include <algorithm>
#include <limits>

#include "hone/media/resize_dots.h"

namespace hone::media {

ColumnTaps::ColumnTaps(std::span<const Taps> taps, size_t channels) : taps_(taps), channels_(channels) {
  if (!has_byte_dots()) return;
  const size_t padded = (samples() + 7) / 8 * 8;
  quads_.reserve(padded / 4), steps_.reserve(padded / 4);
  bool fits = true;
  for (size_t sample = 0; fits && sample < padded; sample += 4) fits = add_quad(sample);
  if (!fits) quads_.clear(), steps_.clear();
}

// Returns whether its input fits.
bool ColumnTaps::add_quad(size_t sample) {
  const size_t end = std::min(sample + 4, samples());
  if (sample >= end) return quads_.push_back({quads_.back().first, 1}), steps_.push_back({}), true;
  auto taps_of = [&](size_t s) -> const Taps& { return taps_[s / channels_]; };
  auto first_of = [&](size_t s) { return taps_of(s).first * channels_ + s % channels_; };
  auto steps_of = [&](size_t s) { return taps_of(s).weights.size() / kTapsAtOnce; };
  Quad quad{std::numeric_limits<size_t>::max(), 0};
  for (size_t s = sample; s < end; ++s) {
    quad.first = std::min(quad.first, first_of(s)), quad.steps = std::max(quad.steps, steps_of(s));
    quad.start[s - sample] = taps_of(s).start;
  }
  auto* const steps = &*steps_.insert(steps_.end(), quad.steps, {});
  for (size_t s = sample; s < end; ++s) {
    const size_t lane = kTapsAtOnce * (s - sample), place = first_of(s) - quad.first;
    if (place + (kTapsAtOnce - 1) * channels_ > 15) return false;
    for (size_t i = 0; i < steps_of(s); ++i) {
      const int8_t* const digits = taps_of(s).digits + i * kDigitBytes;
      for (size_t tap = 0; tap < kTapsAtOnce; ++tap) steps[i].places[lane + tap] = static_cast<uint8_t>(place + tap * channels_);
      std::copy_n(digits, kTapsAtOnce, steps[i].low + lane);
      std::copy_n(digits + kTapsAtOnce, kTapsAtOnce, steps[i].middle + lane);
      std::copy_n(digits + 2 * kTapsAtOnce, kTapsAtOnce, steps[i].high + lane);
    }
  }
  return quads_.push_back(quad), true;
}

}  // namespace hone::media
