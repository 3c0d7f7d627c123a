// softmax_by_panels of tiled_softmax.h. A panel of rows at a time are the columns of both products: logits are the head's words
// times those rows, which leaves them as the panel that the second product reads, after exponentiation in place.
#include <algorithm>

#include "hone/base/error.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/tiled_softmax.h"
#include "hone/ops/cpu/vector/panel_columns.h"

namespace hone::ops::cpu {

namespace {

// A thread's memory.
struct PanelBuffers {
  AlignedVector<float> rows, words, word_columns, logits, sums;
};

class PanelSoftmax {
 public:
  PanelSoftmax(const SoftmaxInputs& inputs, IndexRange rows, PanelBuffers& buffers)
      : inputs_(inputs),
        first_row_(rows.begin),
        row_count_(rows.size()),
        h_(inputs.hidden.size(1)),
        sums_size_(up_to(h_, kPanelRows) * kPanelColumns),
        states_(static_cast<size_t>(up_to(row_count_, kPanelColumns))) {
    const int64_t padded = up_to(row_count_, kPanelColumns), tile = tile_words(h_);
    rows_ = grown(buffers.rows, padded * h_);
    words_ = grown(buffers.words, tile * h_);
    word_columns_ = grown(buffers.word_columns, tile * up_to(h_, kPanelRows));
    logits_ = grown(buffers.logits, tile * kPanelColumns);
    pack_column_panels(inputs.hidden.const_data_ptr<float>() + first_row_ * h_, PanelSource{h_, 1, row_count_, h_}, rows_);
    if (!inputs.with_gradient) return;
    sums_ = grown(buffers.sums, padded / kPanelColumns * sums_size_);
    std::fill_n(sums_, padded / kPanelColumns * sums_size_, 0.0f);
  }

  void add_tile(IndexRange tile) {
    const auto* head = inputs_.weight.const_data_ptr<float>() + tile.begin * h_;
    pack_row_panels(head, PanelSource{h_, 1, tile.size(), h_}, words_);
    if (sums_) pack_row_panels(head, PanelSource{1, h_, h_, tile.size()}, word_columns_);
    for (int64_t row = 0; row < row_count_; row += kPanelColumns) {
      for (int64_t word = 0; word < tile.size(); word += kPanelRows)
        multiply_(words_ + word * h_, rows_ + row * h_, h_, logits_ + word * kPanelColumns, kPanelColumns, false);
      float* sums = sums_ ? sums_ + row / kPanelColumns * sums_size_ : nullptr;
      exponentiate(tile, row, sums);
      if (!sums) continue;
      for (int64_t k = 0; k < h_; k += kPanelRows)
        multiply_(word_columns_ + k * tile.size(), logits_, tile.size(), sums + k * kPanelColumns, kPanelColumns, true);
    }
  }

  PartialSoftmax finish() {
    PartialSoftmax part;
    if (sums_) {
      part.sums = at::empty({row_count_, h_}, inputs_.hidden.options());
      auto* to = part.sums.mutable_data_ptr<float>();
      for (int64_t row = 0; row < row_count_; ++row)
        for (int64_t k = 0; k < h_; ++k)
          to[row * h_ + k] = sums_[row / kPanelColumns * sums_size_ + k * kPanelColumns + row % kPanelColumns];
    }
    states_.resize(static_cast<size_t>(row_count_));
    part.states = std::move(states_);
    return part;
  }

 private:
  // The logits of a panel of rows from `row` on, of which some may be missing.
  void exponentiate(IndexRange tile, int64_t row, float* sums) {
    RowState* states = states_.data() + row;
    const auto range = range_of_columns(logits_, tile.size());
    PanelColumns peaks, rescale;
    bool rescales = false, is_near = true;
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      const int64_t target = row + j < row_count_ ? inputs_.target_in(tile, first_row_ + row + j) : -1;
      if (target >= 0) states[j].chosen = logits_[target * kPanelColumns + j];
      rescale.of[j] = states[j].raise_peak(range.largest.of[j], target >= 0 && leads_column(tile.size(), target, j));
      peaks.of[j] = states[j].peak;
      rescales |= rescale.of[j] != 1;
      is_near &= range.smallest.of[j] - peaks.of[j] > kSmallestNear;
    }
    if (sums && rescales) scale_columns(sums, h_, rescale);
    const auto all = inputs_.with_sum ? sums_of_columns(logits_, tile.size()) : PanelColumns{};
    const auto totals = exponentials_of_columns(logits_, tile.size(), peaks, is_near);
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      states[j].total = states[j].total * rescale.of[j] + totals.of[j];
      states[j].all += all.of[j];
    }
  }

  bool leads_column(int64_t words, int64_t target, int64_t column) const {
    const float* logits = logits_ + column;
    const float own = logits[target * kPanelColumns];
    for (int64_t i = 0; i < words; ++i)
      if (const float other = logits[i * kPanelColumns]; !(i < target ? other < own : other <= own)) return false;
    return true;
  }

  const SoftmaxInputs& inputs_;
  const MultiplyPanels multiply_ = multiply_panels_here();
  int64_t first_row_, row_count_, h_;
  int64_t sums_size_;  // of a panel of rows: [h, kPanelColumns], h padded
  std::vector<RowState> states_;
  float *rows_, *words_, *word_columns_, *logits_, *sums_ = nullptr;
};

}  // namespace

PartialSoftmax softmax_by_panels(const SoftmaxInputs& inputs, IndexRange rows, IndexRange words) {
  thread_local PanelBuffers buffers;
  PanelSoftmax softmax(inputs, rows, buffers);
  const int64_t step = tile_words(inputs.hidden.size(1));
  for (int64_t word = words.begin; word < words.end; word += step) softmax.add_tile({word, std::min(word + step, words.end)});
  return softmax.finish();
}

}  // namespace hone::ops::cpu
