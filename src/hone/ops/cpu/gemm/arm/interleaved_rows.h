// The loop over interleaved weights (interleaved_layout.h) shared by kernels for few rows.
#pragma once
#include <algorithm>
#include <vector>

#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/packed_layout.h"

namespace hone::ops::cpu {

// tile<X>(first row) over rows that are computed together.
template <class Tile>
void for_row_tiles(int64_t rows, Tile tile) {
  int64_t m = 0;
  for (; m + 4 <= rows; m += 4) tile.template operator()<4>(m);
  for (; m + 2 <= rows; m += 2) tile.template operator()<2>(m);
  for (; m < rows; ++m) tile.template operator()<1>(m);
}

// Interleaves up to four separately stored outputs. place(i) is the position of the i-th number of a line if it were the first of
// four.
template <class T, class Place>
std::vector<T> interleaved_rest(const T* lines, int64_t count, int64_t size, Place place) {
  std::vector<T> four(static_cast<size_t>(size * kInterleavedOutputs));
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < size; ++i) four[static_cast<size_t>(place(i) + p)] = lines[p * size + i];
  return four;
}
inline int64_t place_of_word(int64_t i) { return i * kInterleavedOutputs; }
inline int64_t place_of_scale(int64_t i) {
  const int64_t span = i / (2 * kGroupSpan), which = i / kGroupSpan % 2, group = span * kGroupSpan + i % kGroupSpan;
  return (group * 2 + which) * kInterleavedOutputs;
}

// whole(count) computes the outputs in full groups of four, rest(first, lines, y) up to three more into y [rows, 4].
template <class Whole, class Rest>
void for_fours(const SkinnyShape& shape, float* y, Whole whole, Rest rest) {
  const int64_t fours = shape.count / kInterleavedOutputs * kInterleavedOutputs, lines = shape.count - fours;
  if (fours > 0) whole(SkinnyShape{shape.rows, shape.width, fours, shape.y_stride});
  if (lines == 0) return;
  std::vector<float> four(static_cast<size_t>(shape.rows * kInterleavedOutputs));
  rest(fours, lines, four.data(), SkinnyShape{shape.rows, shape.width, kInterleavedOutputs, kInterleavedOutputs});
  for (int64_t m = 0; m < shape.rows; ++m)
    std::copy_n(four.data() + m * kInterleavedOutputs, lines, y + m * shape.y_stride + fours);
}

}  // namespace hone::ops::cpu
