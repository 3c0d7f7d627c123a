// The taps of all output pixels of a row, also arranged for the dot products of resize_dots.h.
#pragma once
#include <vector>

#include "hone/media/resize_rows.h"

namespace hone::media {

class ColumnTaps {
 public:
  // Four adjacent output samples. Their input begins at byte `first` of a row and takes `steps` steps.
  struct Quad {
    size_t first = 0, steps = 0;
    int32_t start[4] = {};  // as in Taps
  };
  // kTapsAtOnce taps of each of the four samples: their offsets from `first`, which each step moves on by as many pixels, and
  // the digits of their weights.
  struct Step {
    uint8_t places[16];
    int8_t low[16], middle[16], high[16];
  };

  // Pixels have `channels` samples, 1 to 4. `taps` must outlive this object.
  ColumnTaps(std::span<const Taps> taps, size_t channels);

  std::span<const Taps> taps() const { return taps_; }
  size_t channels() const { return channels_; }
  size_t samples() const { return taps_.size() * channels_; }
  // An even number; those after the last sample have no weight. None without has_byte_dots(), or if four samples
  // read more than 16 bytes in a step: a row of half as many pixels, or fewer.
  std::span<const Quad> quads() const { return quads_; }
  const Step* steps() const { return steps_.data(); }  // of all quads, in order

 private:
  bool add_quad(size_t sample);

  std::span<const Taps> taps_;
  size_t channels_;
  std::vector<Quad> quads_;
  std::vector<Step> steps_;
};

}  // namespace hone::media
