#include "hone/ops/cpu/tiled_softmax.h"

#include <algorithm>

#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/panel_columns.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

bool leads_row(const float* row, int64_t width, int64_t target) {
  for (int64_t i = 0; i < width; ++i)
    if (!(i < target ? row[i] < row[target] : row[i] <= row[target])) return false;
  return true;
}

// Adds one tile of a row's logits and replaces them by their exponentials; returns the factor for earlier sums.
float fold_row_of_tile(float* row, int64_t width, int64_t target, bool with_sum, RowState& state) {
  if (target >= 0) state.chosen = row[target];
  const float rescale = state.raise_peak(max_of_row(row, width), target >= 0 && leads_row(row, width, target));
  if (with_sum) state.all += sum_of_row(row, width);
  state.total = state.total * rescale + exponentials_in_place(row, width, state.peak);
  return rescale;
}

}  // namespace

int64_t tile_words(int64_t width) {
  if (!has_panel_columns()) return width <= 256 ? 1024 : 512;
  if (kPanelColumns > 16) return 12 * kPanelRows;              // a panel's logits take 18 KB of the first-level cache
  return std::clamp<int64_t>(32768 / width / 8 * 8, 64, 512);  // packed twice, 256 KB of the L2 cache
}

int64_t block_rows() { return has_panel_columns() ? 384 : 192; }

PartialSoftmax softmax_by_matmul(const SoftmaxInputs& inputs, IndexRange rows, IndexRange words) {
  constexpr int64_t kFewestRows = 8;  // worth a thread
  const int64_t h = inputs.hidden.size(1), step = tile_words(h);
  const auto x = inputs.hidden.narrow(0, rows.begin, rows.size());
  PartialSoftmax part{std::vector<RowState>(static_cast<size_t>(rows.size())),
                      inputs.with_gradient ? at::zeros_like(x) : Tensor()};
  for (int64_t first = words.begin; first < words.end; first += step) {
    const IndexRange tile{first, std::min(first + step, words.end)};
    const auto head = inputs.weight.narrow(0, first, tile.size());
    auto logits = matmul_nt(x, head);
    auto* values = logits.mutable_data_ptr<float>();
    auto* sums = part.sums.defined() ? part.sums.mutable_data_ptr<float>() : nullptr;
    parallel_pieces(rows.size(), kFewestRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float rescale = fold_row_of_tile(values + row * tile.size(), tile.size(), inputs.target_in(tile, rows.begin + row),
                                               inputs.with_sum, part.states[static_cast<size_t>(row)]);
        if (sums && rescale != 1) scale_row(sums + row * h, h, rescale);
      }
    });
    if (part.sums.defined()) part.sums.add_(matmul_nn(logits, head));
  }
  return part;
}

}  // namespace hone::ops::cpu
