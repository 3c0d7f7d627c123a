#include "hone/ops/cpu/long_product.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/ops/cpu/float_parts.h"

namespace hone::ops::cpu {

#if defined(__x86_64__)

namespace {

static_assert(LongScratch::kInputs == kSummedInputs);  // as few rows are summed
constexpr int64_t kPanelBlock = 2 * kPartsBlock;  // the parts of 32 rows' or outputs' next 32 inputs

// A piece of the weight: `outputs` rows, `inputs` of each from `first` on.
struct WeightPiece {
  const float* from;
  int64_t outputs, inputs, width;
};

// Asks memory for a piece line by line while another is multiplied.
class Asking {
 public:
  Asking(const WeightPiece& piece, int64_t steps) : piece_(piece), lines_a_step_((piece.outputs * piece.inputs / kTile + steps - 1) / steps) {}

  HONE_UNIT_INLINE void step() {
    for (int64_t i = 0; i < lines_a_step_ && row_ < piece_.outputs; ++i) {
      _mm_prefetch(piece_.from + row_ * piece_.width + at_, _MM_HINT_T1);
      at_ += kTile;
      if (at_ >= piece_.inputs) at_ = 0, ++row_;
    }
  }

 private:
  WeightPiece piece_;
  int64_t lines_a_step_, row_ = 0, at_ = 0;
};

HONE_UNIT void cut_piece(const WeightPiece& piece, c10::BFloat16* to) {
  for (int64_t first = 0; first < piece.outputs; first += kPanel)
    for (int64_t i = 0; i < piece.inputs; i += kUnitInputs, to += kPanelBlock)
      for (int64_t r = 0; r < kPanel; ++r)
        store_cut(piece.from + std::min(first + r, piece.outputs - 1) * piece.width + i, to + r / kTile * kPartsBlock + r % kTile * kUnitInputs);
}

// One kind of parts of both blocks of x meets the weights in tiles 4 and 5.
HONE_UNIT_INLINE void meet(const c10::BFloat16* x) {
  load_tile<6>(x, kTileStride);
  multiply_tiles<0, 4, 6>();
  multiply_tiles<2, 5, 6>();
  load_tile<7>(x + kPartsBlock, kTileStride);
  multiply_tiles<1, 4, 7>();
  multiply_tiles<3, 5, 7>();
}
HONE_UNIT_INLINE void hold(const c10::BFloat16* w) {
  load_tile<4>(w, kTileStride);
  load_tile<5>(w + kPartsBlock, kTileStride);
}

// A panel of rows against a panel of outputs: totals [outputs' sixteen][rows' sixteen] go on, in the order of products that few rows have.
HONE_UNIT_INLINE void multiply_panels(const c10::BFloat16* x, const c10::BFloat16* w, float* totals, int64_t inputs, Asking& asking) {
  alignas(64) float sums[4 * kTileSums];
  clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
  for (int64_t i = 0; i < inputs; i += kUnitInputs, x += kPanelBlock, w += kPanelBlock) {
    asking.step();
    hold(w), meet(low_of(x)), meet(middle_of(x)), meet(x);
    hold(middle_of(w)), meet(middle_of(x)), meet(x);
    hold(low_of(w)), meet(x);
  }
  store_tile<0>(sums, kSumsStride), store_tile<1>(sums + kTileSums, kSumsStride);
  store_tile<2>(sums + 2 * kTileSums, kSumsStride), store_tile<3>(sums + 3 * kTileSums, kSumsStride);
  add_sums(sums, totals, 4 * kTileSums);
}

HONE_UNIT void put_panel(const float* sums, float* y, int64_t rows, int64_t outputs, int64_t y_stride) {
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t r = 0; r < 2; ++r, sums += kTileSums) {
      const int64_t few_outputs = std::min(kTile, outputs - o * kTile), few_rows = std::min(kTile, rows - r * kTile);
      if (few_outputs > 0 && few_rows > 0) put_sums(sums, few_outputs, few_rows, y + r * kTile * y_stride + o * kTile, y_stride);
    }
}

// A few panels of outputs against all rows.
class LongBlock {
 public:
  LongBlock(const c10::BFloat16* x, const float* weight, const LongShape& shape, const LongScratch& scratch)
      : x_(x), weight_(weight), shape_(shape), scratch_(scratch) {}

  HONE_UNIT void compute(int64_t first, int64_t end, int64_t last, float* y) const {
    const int64_t panels = panels_of(end - first), row_panels = panels_of(shape_.rows);
    std::fill_n(scratch_.sums, row_panels * panels * kPanel * kPanel, 0.0f);
    for (int64_t i = 0; i < shape_.width; i += LongScratch::kInputs) {
      const auto now = piece(first, end, i);
      const bool more = i + LongScratch::kInputs < shape_.width;
      const auto next = more ? piece(first, end, i + LongScratch::kInputs) : piece(end, std::min(2 * end - first, last), 0);
      cut_piece(now, scratch_.weights);
      Asking asking(next, row_panels * panels * now.inputs / kUnitInputs);
      for (int64_t r = 0; r < row_panels; ++r)
        for (int64_t p = 0; p < panels; ++p)
          multiply_panels(x_ + (r * shape_.width + i) / kUnitInputs * kPanelBlock, scratch_.weights + p * now.inputs / kUnitInputs * kPanelBlock,
                          sums(r, p, panels), now.inputs, asking);
    }
    for (int64_t r = 0; r < row_panels; ++r)
      for (int64_t p = 0; p < panels; ++p)
        put_panel(sums(r, p, panels), y + r * kPanel * shape_.outputs + first + p * kPanel, shape_.rows - r * kPanel, end - first - p * kPanel, shape_.outputs);
  }

 private:
  WeightPiece piece(int64_t first, int64_t end, int64_t input) const {
    return {weight_ + first * shape_.width + input, end - first, std::min(LongScratch::kInputs, shape_.width - input), shape_.width};
  }
  float* sums(int64_t r, int64_t p, int64_t panels) const { return scratch_.sums + (r * panels + p) * kPanel * kPanel; }

  const c10::BFloat16* x_;
  const float* weight_;
  const LongShape& shape_;
  const LongScratch& scratch_;
};

}  // namespace

HONE_UNIT void long_outputs(const c10::BFloat16* x, const float* weight, float* y, const LongShape& shape, int64_t begin, int64_t end,
                            const LongScratch& scratch) {
  constexpr int64_t kStep = LongScratch::kOutputPanels * kPanel;
  set_up_whole_tiles();
  const LongBlock block(x, weight, shape, scratch);
  const int64_t last = std::min(end * kPanel, shape.outputs);
  for (int64_t first = begin * kPanel; first < last; first += kStep) block.compute(first, std::min(first + kStep, last), last, y);
  release_tiles();
}

#else

void long_outputs(const c10::BFloat16*, const float*, float*, const LongShape&, int64_t, int64_t, const LongScratch&) {
  fail_check("a processor with a matrix unit", __FILE__, __LINE__, "");
}

#endif

}  // namespace hone::ops::cpu
