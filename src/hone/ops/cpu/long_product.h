// As float_unit.h for many rows: blocks of weights are cut into their parts once and meet every row from the cache. A row's result is to the
// last bit what it is among few.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace hone::ops::cpu {

constexpr int64_t kPanel = 32;      // rows, or outputs, that four tiles of sums cover
constexpr int64_t kSlabRows = 512;  // at most, at a time

struct LongShape {
  int64_t rows, width, outputs;  // y [rows, outputs]; a width of whole kUnitInputs (matrix_unit.h)
};

inline int64_t panels_of(int64_t count) { return (count + kPanel - 1) / kPanel; }

// What a thread needs beside its inputs and outputs.
struct LongScratch {
  c10::BFloat16* weights;  // kWeights, at a multiple of 64 bytes
  float* sums;             // panels_of(rows) * kSums, the same

  static constexpr int64_t kOutputPanels = 8, kInputs = 512;
  static constexpr int64_t kWeights = kOutputPanels * kPanel * kInputs * 3, kSums = kOutputPanels * kPanel * kPanel;
};

// Panels [begin, end) of the outputs; `x`: for each panel of rows pack_parts(..., 2).
void long_outputs(const c10::BFloat16* x, const float* weight, float* y, const LongShape& shape, int64_t begin, int64_t end, const LongScratch& scratch);

}  // namespace hone::ops::cpu
