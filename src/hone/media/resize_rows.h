// The inner loops of Pillow's resize, vectorized for the available instruction set. Sums are 32-bit integers, so the order of
// terms does not matter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hone::media {

inline constexpr int kWeightBits = 22;  // of a weight behind the point

inline constexpr size_t kTapsAtOnce = 4;

inline constexpr size_t kDigitBytes = 16;  // of kTapsAtOnce weights

// What resize_dots.h subtracts from samples: Arm's dot products before I8MM are of signed bytes, x86's of unsigned and signed
// ones.
#if defined(__aarch64__)
inline constexpr int32_t kSampleOffset = 128;
#else
inline constexpr int32_t kSampleOffset = 0;
#endif

// The input of one output sample: `count` samples from `first` on. Weights are zero-padded to a multiple of kTapsAtOnce.
struct Taps {
  size_t first = 0, count = 0;
  std::span<const int32_t> weights;
  // For resize_dots.h: the weights in digits of 256 from -128 to 127, the low ones of kTapsAtOnce weights, the middle ones, the
  // high ones and four zeros; and the sum over samples of kSampleOffset, with the half that rounds.
  const int8_t* digits = nullptr;
  int32_t start = 0;
};

class ColumnTaps;  // column_taps.h

inline constexpr size_t kRowsAtOnce = 8;
inline constexpr size_t kRowsInRegisters = 4;  // of sums of whole pixels
inline constexpr size_t kReadBehind = 16;      // bytes that may be read, unused, behind a row of resize_columns

// One output pixel for every entry of `taps`, in each of kRowsAtOnce rows.
void resize_columns(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps);

// One output row of `width` samples out of the rows that `taps` says, `width` bytes apart.
void resize_rows(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps);

// Enables resize_dots.h for later calls: tests compare both paths on one machine.
void allow_resize_dots(bool allowed);

}  // namespace hone::media
